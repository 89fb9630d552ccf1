use crate::*;
use polyshard_layout::Mesh;

#[test]
fn scratch() {
    let mesh = Mesh::new([("x", 8), ("y", 8)]);
    let [x, y] = mesh.axes();
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    for alg in ["summa", "pumma", "cannon", "cannon-plain"] {
        let s = Schedule::from_spec(example::matmul(512, 1024, 2048))
            .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
            .divide("k", "ko", "ki", 8)
            .reorder(["mo", "no", "ko", "mi", "ni", "ki"]);
        let s = match alg {
            "summa" => s,
            "pumma" => s.rotate("ko", ["no"]),
            _ => s.rotate("ko", ["mo", "no"]),
        };
        let s = if alg == "cannon" {
            s.shard("A", [m.at(x), k.at((x + y) % 8)]).shard("B", [k.at((x + y) % 8), n.at(y)])
        } else {
            s.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)])
        };
        let s = s
            .shard("C", [m.at(x), n.at(y)])
            .communicate("A", "ko")
            .communicate("B", "ko")
            .tensorize(["mi", "ni", "ki"]);
        let t = std::time::Instant::now();
        let p = s.lower().unwrap();
        println!("{alg} {:?}\n{p}\n{}", t.elapsed(), p.explain());
    }
}
