use polyshard_runtime::machine::*;
fn main() -> polyshard_runtime::Result<()> {
    let n = polyshard_runtime::launched_ranks().unwrap_or(4);
    polyshard_runtime::spmd(n, |world| {
        let t = std::time::Instant::now();
        let d = detect(world)?;
        let took = t.elapsed();
        if world.rank() == 0 { println!("{took:?}\n{}", d.to_toml()); }
        let t = std::time::Instant::now();
        let m = measure(world, &MeasureOptions::default())?;
        let took = t.elapsed();
        if world.rank() == 0 {
            println!("{took:?}\n{}", m.machine.to_toml());
            for p in &m.points { println!("{},{},{},{:.3},{:.3},{:.3} {:.2}", p.call, p.ranks, p.bytes, p.seconds*1e6, p.links*1e6, p.predicted*1e6, p.error()); }
            for r in m.errors() { println!("{:24} {:?} {} {:.3} {:.3}", r.call, r.ranks, r.points, r.links, r.predicted); }
        }
        Ok::<_, polyshard_runtime::Error>(())
    }).map(drop)
}
