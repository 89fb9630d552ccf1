//! A leg of a transfer or of a move as text.

use crate::expr::Expr;
use crate::nest::{Algorithm, Direction, Leg, Owners, Shift};
use polyshard_layout::{Mesh, Neighbours, Reach, Stencil, joined};

/// Formats the legs of one route.
pub(crate) struct LegText<'a> {
    /// The mesh whose axes the legs name.
    pub(crate) mesh: &'a Mesh,
    pub(crate) direction: Direction,
    /// An expression as text.
    pub(crate) expr: &'a dyn Fn(&Expr) -> String,
}

impl LegText<'_> {
    /// Describes a leg.
    pub(crate) fn of(&self, leg: &Leg) -> String {
        let names = |axes: &[usize]| joined(self.mesh.names(axes), ", ");
        match (leg, self.direction) {
            (Leg::InPlace, Direction::In) => "own shard".into(),
            (Leg::InPlace, Direction::Out { .. }) => "own shard, in place".into(),
            (Leg::Copy, Direction::In) => "gathered from own shard".into(),
            (Leg::Copy, Direction::Out { .. }) => "combined into own shard".into(),
            (Leg::Collective { axes, owners, by }, Direction::In) => {
                let stages = leg.stages().map(|stages| show_stages(&stages.names(self.mesh)));
                let stages = stages.unwrap_or_default();
                match owners {
                    Owners::One(root) => {
                        format!("broadcast along {} from {}{stages}", names(axes), self.root(axes, root))
                    }
                    Owners::Parts => {
                        let pieces = if *by == Algorithm::EachPart { ", each part broadcast" } else { "" };
                        format!("all-gather along {}{stages}{pieces}", names(axes))
                    }
                    Owners::All => format!("own shard, as all along {} have it", names(axes)),
                }
            }
            (Leg::Collective { axes, owners, by }, Direction::Out { any_order }) => {
                let order = match by {
                    _ if any_order => ", in any order",
                    Algorithm::Stages(_) => ", terms in their order",
                    Algorithm::ReduceScatterGather => ", each rank a piece",
                    _ => "",
                };
                let by = match by {
                    Algorithm::Stages(stages) => {
                        let mut names = stages.names(self.mesh);
                        names.reverse();
                        if *owners == Owners::All {
                            let back = names[..names.len() - 1].iter().rev().map(|name| format!("back along {name}"));
                            let back: Vec<_> = back.collect();
                            names.extend(back);
                        }
                        show_stages(&names)
                    }
                    Algorithm::Procedure(procedure) => format!(" {}", procedure.shown()),
                    _ => String::new(),
                };
                match owners {
                    Owners::One(root) => {
                        format!("reduce along {} to {}{by}{order}", names(axes), self.root(axes, root))
                    }
                    Owners::All => format!("all-reduce along {}{by}{order}", names(axes)),
                    Owners::Parts => format!("reduce-scatter along {}{by}{order}", names(axes)),
                }
            }
            (Leg::Permute { owner, served }, Direction::In) => {
                format!("permute: from rank {}, to rank {}", self.rank(owner), self.rank(served))
            }
            (Leg::Permute { owner, served }, Direction::Out { .. }) => {
                format!("permute: to rank {}, from rank {}", self.rank(owner), self.rank(served))
            }
            (Leg::Halo { reach }, Direction::In) => format!("halo from {}", self.reach(reach)),
            (Leg::Halo { reach }, Direction::Out { .. }) => format!("halo to {}", self.reach(reach)),
            (Leg::Exchange { reach, .. }, _) => format!("exchange with the owners at {}", self.reach(reach)),
            (Leg::Shift(Shift { axis, by, .. }), _) => {
                format!("shift along {} by {by}", self.mesh.as_slice()[axis.0].name)
            }
        }
    }

    /// The ranks in reach: `x - 1 ..= x + 1, any y`.
    fn reach(&self, reach: &Neighbours) -> String {
        let along =
            self.mesh.as_slice().iter().zip(&reach.along).filter(|(axis, _)| axis.extent > 1).map(|(axis, reach)| {
                let name = axis.name;
                let at = |by: i64| match by {
                    0 => name.to_string(),
                    _ => format!("{name} {} {}", if by < 0 { '-' } else { '+' }, by.unsigned_abs()),
                };
                match reach {
                    Reach::All => format!("any {name}"),
                    Reach::Within { low, high } | Reach::Around { low, high } if low == high => at(*low),
                    Reach::Within { low, high } => format!("{}..={}", at(*low), at(*high)),
                    Reach::Around { low, high } => format!("{}..={} around the axis", at(*low), at(*high)),
                }
            });
        let alone = if reach.stencil == Stencil::Star { ", along one axis alone" } else { "" };
        format!("{}{alone}", joined(along, ", "))
    }

    fn rank(&self, coordinates: &[Expr]) -> String {
        format!("({})", joined(coordinates.iter().map(self.expr), ", "))
    }

    /// `x = ko, y = 0`.
    fn root(&self, axes: &[usize], root: &[Expr]) -> String {
        let names = self.mesh.names(axes);
        let coordinates = names.iter().zip(root).map(|(name, root)| format!("{name} = {}", (self.expr)(root)));
        joined(coordinates, ", ")
    }
}

/// The stages of a collective in the order in which they are carried out.
fn show_stages(names: &[String]) -> String {
    format!(" in stages: {}", names.join(", then "))
}
