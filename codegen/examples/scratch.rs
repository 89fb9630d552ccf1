use polyshard_codegen::*;
use polyshard_layout::Mesh;
use polyshard_polyhedral::*;
fn main() {
    let mesh = Mesh::new([("x", 8), ("y", 8)]);
    let [x, y] = mesh.axes();
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    for alg in ["summa", "pumma", "cannon", "cannon-plain", "exchange"] {
        let size = if alg == "exchange" { 500 } else { 512 };
        let s = Schedule::from_spec(example::matmul(size, 1024, 2048))
            .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
            .divide("k", "ko", "ki", 8)
            .reorder(["mo", "no", "ko", "mi", "ni", "ki"]);
        let s = match alg {
            "summa" | "exchange" => s,
            "pumma" => s.rotate("ko", ["no"]),
            _ => s.rotate("ko", ["mo", "no"]),
        };
        let s = if alg == "cannon" {
            s.shard("A", [m.at(x), k.at((x + y) % 8)]).shard("B", [k.at((x + y) % 8), n.at(y)])
        } else if alg == "exchange" {
            s.shard("A", [m.cyclic(x, 3), k.at(y)]).shard("B", [k.at(x), n.at(y)])
        } else {
            s.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)])
        };
        let s = s.shard("C", [m.at(x), n.at(y)]).communicate("A", "ko").communicate("B", "ko").tensorize(["mi", "ni", "ki"]);
        let times: Vec<_> = (0..3).map(|_| { let t = std::time::Instant::now(); let _ = s.lower().unwrap(); t.elapsed() }).collect();
        eprintln!("{alg}: {times:?}");
        let p = s.lower().unwrap();
        println!("{}", rust_source(&p, &SourceOptions::default()));
    }
}
