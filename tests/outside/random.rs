// Inputs for the programs of the crate outside and for the executor, and a digest of the result: included by both.

/// The element of an input: not a small integer, so that another order of operations gives other bits.
fn input<T: polyshard::runtime::Element>(tensor: usize, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3, 5, 2]).map(|(i, factor)| i * factor).sum::<usize>() + 11 * tensor;
    T::from((sum % 17) as f64 / 3.0 - 2.1).expect("a small number is of every type")
}

/// A number that depends on every bit of the result, on all ranks: with inputs read in place, and received as messages.
fn bits<T: polyshard::runtime::Element>(
    ranks: usize,
    run: impl Fn(&polyshard::runtime::World) -> polyshard::runtime::Result<polyshard::runtime::DistArray<T>> + Sync,
) -> polyshard::Result<u64> {
    // Fowler, Noll and Vo's hash, version 1a.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let transports = [polyshard::runtime::Transport::Auto, polyshard::runtime::Transport::Messages];
    transports.into_iter().try_fold(0xcbf2_9ce4_8422_2325, |start, transport| {
        let blocks = polyshard::spmd(ranks, |world| {
            world.set_transport(transport);
            Ok(run(world)?.block().to_vec())
        })?;
        let bytes = blocks.iter().flat_map(|block| {
            let elements = block.iter().flat_map(|element| format!("{element:?} ").into_bytes());
            elements.chain([b'\n'])
        });
        Ok(bytes.fold(start, hash))
    })
}
