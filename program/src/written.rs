//! Which elements of its output a kernel writes.

use crate::affine::Affine;
use crate::kernel::Kernel;

/// The elements of an output that a kernel writes: those at an affine index, which no schedule changes.
///
/// Contracted indices do not count: where one has no values, `=` still writes the empty sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The index at the first value of every variable, by dimension.
    pub base: Vec<i64>,
    /// The stride of each variable, by dimension and variable.
    pub strides: Vec<Vec<i64>>,
    /// The number of values of each variable.
    pub counts: Vec<usize>,
}

impl Kernel {
    /// Whether each element that the kernel writes gets one term: every variable is alone in one dimension of the output.
    pub(crate) fn writes_once(&self) -> bool {
        let index = &self.target.index;
        let alone = |name| {
            let mut moved = index.iter().filter(|index| index.coefficient(name) != 0);
            moved.next().is_some_and(|index| index.terms.len() == 1) && moved.next().is_none()
        };
        self.vars.iter().all(|var| alone(var.name))
    }

    /// Returns which elements of the output the kernel writes, if it does not write all of them.
    #[must_use]
    pub fn written(&self) -> Option<Written> {
        let index = &self.target.index;
        let vars: Vec<_> = self.vars.iter().filter(|var| self.target.mentions(var.name)).collect();
        // Each variable runs through a whole dimension, up or down, and none through two.
        let whole = |(index, &extent): (&Affine, &usize)| match (&index.terms[..], index.constant) {
            (&[(name, step @ (1 | -1))], start) => {
                let first = if step == 1 { 0 } else { extent as i64 - 1 };
                start == first && vars.iter().any(|var| var.name == name && var.extent == extent)
            }
            (&[], 0) => extent == 1,
            _ => false,
        };
        let alone = |name| index.iter().filter(|index| index.coefficient(name) != 0).count() == 1;
        if index.iter().zip(&self.output.shape).all(whole) && vars.iter().all(|var| alone(var.name)) {
            return None;
        }
        let strides = |index: &Affine| vars.iter().map(|var| index.coefficient(var.name)).collect();
        Some(Written {
            base: index.iter().map(|index| index.constant).collect(),
            strides: index.iter().map(strides).collect(),
            counts: vars.iter().map(|var| var.extent).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, Affine, Assign, DType, KernelSpec, Value, Written};
    use polyshard_layout::Name;

    /// Which elements of a `C` of `shape` a kernel writes at `index`, where `i` has 3 values and `j` has 2.
    fn written(shape: &[usize], index: &[(&[(&str, i64)], i64)]) -> Option<Written> {
        let affine = |(terms, constant): &(&[(&str, i64)], i64)| {
            Affine::new(terms.iter().map(|&(name, step)| (Name::new(name), step)), *constant)
        };
        let spec = KernelSpec {
            name: Name::new("f"),
            dtype: DType::I64,
            inputs: vec![(Name::new("A"), vec![3, 2])],
            output: (Name::new("C"), shape.iter().map(|&extent| extent as i128).collect()),
            ranges: vec![(Name::new("i"), 0..3), (Name::new("j"), 0..2)],
            scalars: vec![],
            moduli: Vec::new(),
            target: Access::new(Name::new("C"), index.iter().map(affine).collect()),
            assign: Assign::Set,
            value: Value::Access(Access::plain("A", &["i", "j"])),
        };
        spec.check().expect("a kernel").written()
    }

    #[test]
    fn an_output_that_is_written_in_full_has_nothing_to_keep() {
        assert_eq!(written(&[3, 2], &[(&[("i", 1)], 0), (&[("j", 1)], 0)]), None);
        assert_eq!(written(&[1, 3], &[(&[], 0), (&[("i", -1)], 2)]), None);
        assert_eq!(written(&[], &[]), None);
    }

    #[test]
    fn an_output_that_is_written_in_part_says_where() {
        let found = written(&[7, 4], &[(&[("i", 2)], 1), (&[("j", -1)], 2)]).expect("a part");
        assert_eq!(found, Written { base: vec![1, 2], strides: vec![vec![2, 0], vec![0, -1]], counts: vec![3, 2] });
        for index in [(&[("i", 1)][..], 1), (&[("i", 1)][..], 0), (&[("i", 1), ("j", 1)][..], 0)] {
            assert!(written(&[4], &[index]).is_some(), "{index:?}");
        }
        let diagonal = [(&[("i", 1)][..], 0), (&[("i", 1)][..], 0)];
        assert!(written(&[3, 3], &diagonal).is_some());
    }
}
