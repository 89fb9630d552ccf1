//! Products as they are written: `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`.

use super::ProductError;
use polyshard_layout::Mesh;
use polyshard_planner::{Sharded, TypeError};

/// Reads the two factors and the result.
pub(super) fn arrays(text: &str, mesh: &Mesh, sizes: &[(&str, usize)]) -> Result<[Sharded; 3], ProductError> {
    let syntax = |why: &str| ProductError::Syntax { text: text.to_owned(), why: why.to_owned() };
    let (factors, out) = text.split_once("->").ok_or_else(|| syntax("no `->` before the result"))?;
    let (left, right) = factors.split_once('*').ok_or_else(|| syntax("no `*` between the factors"))?;
    if right.contains('*') {
        return Err(syntax("a product has two factors"));
    }
    for (nth, (name, _)) in sizes.iter().enumerate() {
        if sizes[..nth].iter().any(|(other, _)| other == name) {
            return Err(ProductError::Dimension { name: (*name).to_owned(), why: "has two sizes; give one".into() });
        }
    }
    let read =
        |text: &str| Sharded::parse(text, mesh, sizes).map_err(|error| ProductError::of_array(text.trim(), error));
    let all = [read(left)?, read(right)?, read(out)?];
    for factor in &all[..2] {
        if !factor.unreduced().is_empty() {
            let why = "is a factor with unreduced sums; reduce it first";
            return Err(TypeError::Unreduced { array: factor.to_string(), why: why.into() }.into());
        }
    }
    let unknown = |(name, _): &&(&str, usize)| all.iter().all(|array| array.names().iter().all(|other| other != name));
    if let Some((name, _)) = sizes.iter().find(unknown) {
        let mut there: Vec<_> = all.iter().flat_map(Sharded::names).map(String::as_str).collect();
        there.sort_unstable();
        there.dedup();
        let why = format!("has a size but is in no array; the dimensions are {}", there.join(", "));
        return Err(ProductError::Dimension { name: (*name).to_owned(), why });
    }
    Ok(all)
}

/// The dimensions of a product, those of the first factor first.
pub(super) fn loops(left: &Sharded, right: &Sharded, out: &Sharded) -> Result<Vec<String>, ProductError> {
    let mut loops = left.names().to_vec();
    loops.extend(right.names().iter().filter(|name| !left.names().contains(name)).cloned());
    for name in &loops {
        let holders = [left, right, out].into_iter().filter(|array| array.names().contains(name));
        if let [only] = holders.collect::<Vec<_>>()[..] {
            let why = format!("is only in `{only}`; a dimension of a product is in two arrays or in all three");
            return Err(ProductError::Dimension { name: name.clone(), why });
        }
    }
    match out.names().iter().find(|name| !loops.contains(name)) {
        Some(name) => {
            let why = format!("is only in the result `{out}`; the factors have {}", loops.join(", "));
            Err(ProductError::Dimension { name: name.clone(), why })
        }
        None => Ok(loops),
    }
}
