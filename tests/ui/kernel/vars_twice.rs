use polyshard::vars;

fn main() {
    vars!(m, n, k, m);
}
