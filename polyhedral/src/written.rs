//! The relations of a schedule as text for readers: the subject of the proofs.

use crate::context::Context;
use crate::error::LowerError;
use crate::isl::IslResult;
use crate::nest::Depth;
use crate::relation::owners;
use crate::schedule::Schedule;
use polyshard_layout::Name;
use polyshard_program::Affine;

impl Schedule {
    /// Returns the relations that lowering proves things about, in isl's notation: which statement instance each iteration of
    /// all loops is, which elements it touches, and which ranks own them.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 4, 5], B: [f32; 5, 3]) -> C: [f32; 4, 3] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let rows = matmul.distribute(["m"], ["mo"], ["mi"], &mesh);
    /// let relations = rows.shard("A", [Var::new("m").at("x")]).relations()?;
    /// assert!(relations.contains("A owned by   { A[d0, d1] -> [x] : 0 <= d0 <= 3 and 0 <= d1 <= 4 and"), "{relations}");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first step that cannot be applied, or an error of isl if it gives up.
    pub fn relations(&self) -> Result<String, LowerError> {
        let context = &Context::new(self)?;
        context.decided("the text of relations", written(context))
    }
}

fn written(context: &Context<'_>) -> IslResult<String> {
    let (kernel, nest) = (context.kernel(), context.nest());
    let depth = Depth(nest.loops.len() - nest.distributed);
    let loops: Vec<Name> = nest.around(depth).iter().map(|&id| nest.node(id).name).collect();
    let vars: Vec<Name> = kernel.vars().iter().map(|var| var.name).collect();
    let axes: Vec<Name> = context.state.mesh.as_slice().iter().map(|axis| axis.name).collect();
    let dims = |ndim: usize| (0..ndim).map(|dim| Name::new(&format!("d{dim}"))).collect::<Vec<_>>();
    let mut lines = Vec::new();
    let instance: Vec<Affine> = vars.iter().map(|&var| Affine::new([(var, 1)], 0)).collect();
    let instances = context.relation(&context.relations.exact(depth, &instance))?;
    lines.push(("instances".to_owned(), instances.text(("", &loops), ("", &vars))?));
    for tensor in kernel.tensors() {
        let dims = dims(tensor.ndim());
        for access in kernel.accesses_of(tensor.name) {
            let touched = context.relation(&context.relations.exact(depth, &access.index))?;
            lines.push((access.to_string(), touched.text(("", &loops), (tensor.name.as_str(), &dims))?));
        }
        let owners = context.relation(&owners(&context.state.sharding(tensor.name)))?;
        lines.push((format!("{} owned by", tensor.name), owners.text((tensor.name.as_str(), &dims), ("", &axes))?));
    }
    let width = lines.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0);
    Ok(lines.into_iter().map(|(what, relation)| format!("{what:width$}   {relation}\n")).collect())
}
