//! What is to be computed, as products of sharded arrays, and the sequences that the planner finds for them.
//!
//! Only shardings are given: rows of the batch along `d`, hidden units along `t`. A transposed product is one whose
//! dimensions are written in another order.

use polyshard::cli::values::Number;
use polyshard::machine::Machine;
use polyshard::machine::units::counted;
use polyshard::planner::placement::ParallelismMatrix;
use polyshard::planner::product::{Product, ProductPlan, ProductStep, Roofline, Sharded, StepCost, reshard};
use polyshard::{DType, Mesh};
use polyshard_testing::example::launch::Stop;
use std::fmt::Write;

/// Forward, then backward. Gradients of the weights stay terms along `d`.
pub(crate) const PRODUCTS: [&str; 6] = [
    "X[B_d, M] * W1[M, F_t] -> Z[B_d, F_t]",
    "H[B_d, F_t] * W2[F_t, M] -> Y[B_d, M]",
    "H[B_d, F_t] * dY[B_d, M] -> dW2[F_t, M] {U_d}",
    "dY[B_d, M] * W2[F_t, M] -> dH[B_d, F_t]",
    "X[B_d, M] * dZ[B_d, F_t] -> dW1[M, F_t] {U_d}",
    "dZ[B_d, F_t] * W1[M, F_t] -> dX[B_d, M]",
];

/// What the gradients of W2 and W1 are in the end.
const CLOSED: [&str; 2] = ["dW2[F_t, M]", "dW1[M, F_t]"];

/// The extents of the network.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Rows of X: dimension B.
    pub(crate) batch: usize,
    /// Columns of X and Y: dimension M.
    pub(crate) model: usize,
    /// Columns of W1: dimension F.
    pub(crate) hidden: usize,
}

impl Size {
    /// The size of each dimension by its name.
    pub(crate) fn named(self) -> [(&'static str, usize); 3] {
        [("B", self.batch), ("M", self.model), ("F", self.hidden)]
    }
}

/// An array with open sums, and the steps that close them.
pub(crate) type Closing = (Sharded, Vec<(ProductStep, StepCost)>);

/// The plans of all products, and how the weights' gradients are closed.
pub(crate) struct Plans {
    pub(crate) size: Size,
    pub(crate) products: Vec<ProductPlan>,
    pub(crate) closings: Vec<Closing>,
}

impl Plans {
    /// Plans everything on nodes of A100s: the data axis across nodes, the tensor axis inside them.
    pub(crate) fn new<T: Number>(mesh: &Mesh, size: Size) -> Result<Self, Stop> {
        let refused = |error: &dyn std::fmt::Display| Stop::Failed(error.to_string());
        // The machine states no rate for integers; they are taken to be as fast as floats of their size.
        let rated = if T::DTYPE.size() == 4 { DType::F32 } else { DType::F64 };
        let [data, tensor] = [0, 1].map(|axis| mesh.as_slice()[axis].extent);
        let nodes = Machine::preset("a100").and_then(|a100| a100.with_counts(&[data, tensor]));
        let nodes = nodes.map_err(|error| refused(&error))?;
        let matrix = ParallelismMatrix::new(vec![vec![data, 1], vec![1, tensor]]).map_err(|error| refused(&error))?;
        let roofline = Roofline::on_machine(&nodes, &matrix, mesh, rated).map_err(|error| refused(&error))?;
        let plan = |text: &str| Product::covering(text, mesh, &size.named(), T::DTYPE)?.plan(&roofline);
        let products: Result<Vec<ProductPlan>, _> = PRODUCTS.iter().map(|text| plan(text)).collect();
        let products = products.map_err(|error| refused(&error))?;
        let closing = |(product, closed): (&ProductPlan, &str)| {
            let open = product.product().out();
            let names = open.names().iter().map(String::as_str);
            let sizes: Vec<_> = names.zip(open.shape().iter().copied()).collect();
            let to = Sharded::parse(closed, mesh, &sizes)?;
            Ok((open.clone(), reshard(open, &to, T::DTYPE, &roofline)?))
        };
        let closings: Result<Vec<Closing>, _> =
            [&products[2], &products[4]].into_iter().zip(CLOSED).map(closing).collect();
        let closings = closings.map_err(|error: polyshard::planner::product::ProductError| refused(&error))?;
        Ok(Self { size, products, closings })
    }

    pub(crate) fn mesh(&self) -> &Mesh {
        self.products[0].product().mesh()
    }

    /// The plans in words.
    pub(crate) fn explain(&self) -> String {
        let mut text: String = self.products.iter().map(|plan| plan.explain() + "\n").collect();
        for (step, cost) in self.closing_steps() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{step}: {}", counted(cost.bytes, "byte"));
        }
        text
    }

    /// The steps that were chosen, a line for each product.
    pub(crate) fn chosen(&self) -> String {
        let steps =
            |plan: &ProductPlan| plan.best().steps().iter().map(ProductStep::to_string).collect::<Vec<_>>().join("; ");
        let closings = self.closing_steps().map(|(step, _)| step.to_string());
        self.products.iter().map(steps).chain(closings).collect::<Vec<_>>().join("\n")
    }

    /// The bytes that each rank receives by the plans.
    pub(crate) fn bytes(&self) -> u128 {
        let products: u128 = self.products.iter().map(|plan| plan.best().total().bytes).sum();
        products + self.closing_steps().map(|(_, cost)| cost.bytes).sum::<u128>()
    }

    fn closing_steps(&self) -> impl Iterator<Item = &(ProductStep, StepCost)> {
        self.closings.iter().flat_map(|(_, steps)| steps)
    }
}
