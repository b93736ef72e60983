//! Which experts each token visits, and who visits whom. See `routing.cu`.

use bytemuck::{Pod, Zeroable};
use models::semantic::{RouterScores, RouterSpec};

use super::{Unsupported, lengths::Lengths};
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

static IMAGE: Image = image!("routing");
/// Experts that the kernels tell apart.
pub const MOST_EXPERTS: usize = 1024;
/// Experts that a token may visit: one a lane.
pub const MOST_VISITS: usize = 32;
/// Groups of experts: one a lane.
pub const MOST_GROUPS: usize = 32;
/// Tokens of a block.
const WARPS: u32 = 4;
const DEALERS: u32 = 1024;
/// Scores that a lane holds, and the kernel's name.
const ROUTES: [(usize, &str); 4] =
    [(1, "route_1"), (4, "route_4"), (8, "route_8"), (32, "route_32")];

/// The same for one block that deals as well, up to [`FEW`] tokens.
const ROUTES_FEW: [&str; 3] = ["route_few_1", "route_few_4", "route_few_8"];
/// Tokens that one block routes, two a warp.
const FEW: usize = 2 * DEALERS as usize / 32;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Tokens.
    pub rows: usize,
    /// Experts there are.
    pub experts: usize,
    /// Experts that a token visits.
    pub per_token: usize,
    /// How they are chosen.
    pub router: RouterSpec,
    /// Visits that a tile of the experts' products holds at most.
    pub tile_rows: usize,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    problem: Problem,
    route: usize,
}

/// Some places of the order that visit one expert: `uint4` of routing.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ExpertTile {
    /// Which expert.
    pub expert: u32,
    /// First place of the order.
    pub first: u32,
    /// How many places.
    pub places: u32,
    /// Nothing.
    pub reserved: u32,
}

/// The memory of one launch. Visit `v` is one of token `v / per_token`.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows, experts]`: the router's outputs.
    pub logits: View<'a, f32>,
    /// `[1]`: how many rows count, where that is not all; the others visit nobody.
    pub live: Option<View<'a, u32>>,
    /// `[experts]`, where the router has a correction.
    pub correction: Option<View<'a, f32>>,
    /// `[rows, per_token]`: the experts of each token, the best first.
    pub chosen: ViewMut<'a, u32>,
    /// `[rows, per_token]`: what their outputs are multiplied by.
    pub weights: ViewMut<'a, f32>,
    /// `[rows * per_token]`: visits, expert by expert.
    pub order: ViewMut<'a, u32>,
    /// [`Problem::most_tiles`] of them, of which the first [`Args::tile_count`] are filled.
    pub tiles: ViewMut<'a, ExpertTile>,
    /// `[1]`.
    pub tile_count: ViewMut<'a, u32>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RouteParams {
    logits: u64,
    correction: u64,
    chosen: u64,
    weights: u64,
    live: u64,
    rows: u32,
    experts: u32,
    per_token: u32,
    groups: u32,
    kept: u32,
    sigmoid: u32,
    normalise: u32,
    scale: f32,
}
const _: () = assert!(size_of::<RouteParams>() == 72);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct DealParams {
    chosen: u64,
    order: u64,
    tiles: u64,
    tile_count: u64,
    live: u64,
    rows: u32,
    per_token: u32,
    experts: u32,
    tile_rows: u32,
}
const _: () = assert!(size_of::<DealParams>() == 56);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FewParams {
    route: RouteParams,
    deal: DealParams,
}
const _: () = assert!(size_of::<FewParams>() == 128);

/// The kernels.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    routes: [Kernel; ROUTES.len()],
    few: [Kernel; ROUTES_FEW.len()],
    deal: Kernel,
}

impl Problem {
    /// Visits of all tokens.
    pub fn visits(&self) -> usize {
        self.rows * self.per_token
    }

    /// Tiles that there may be: a last one, not full, of every expert that is visited.
    pub fn most_tiles(&self) -> usize {
        most_tiles(self.visits(), self.experts, self.tile_rows)
    }
}

/// Tiles of `tile_rows` visits that `visits` visits of `experts` experts may need.
pub fn most_tiles(visits: usize, experts: usize, tile_rows: usize) -> usize {
    let partial = experts.min(visits);
    partial + (visits - partial) / tile_rows
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem) -> Result<Plan, Unsupported> {
        let Problem { rows, experts, per_token, router, tile_rows } = *problem;
        let groups = router.groups.map_or(1, |groups| groups.count);
        let fits = (1..=MOST_EXPERTS).contains(&experts)
            && (1..=MOST_VISITS.min(experts)).contains(&per_token)
            && (1..=MOST_GROUPS).contains(&groups)
            && experts.is_multiple_of(groups)
            && tile_rows > 0
            && rows <= i32::MAX as usize / MOST_VISITS;
        let route = ROUTES.iter().position(|(each, _)| each * 32 >= experts);
        match route.filter(|_| fits) {
            Some(route) => Ok(Plan { problem: *problem, route }),
            None => Err(Unsupported {
                operation: "routing",
                seen: format!("{problem:?}"),
                requirement: format!(
                    "up to {MOST_EXPERTS} experts in up to {MOST_GROUPS} groups, {MOST_VISITS} a token, tokens below 2^26"
                ),
            }),
        }
    }
}

impl Routing {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Routing, DriverError> {
        let [a, b, c, d] = ROUTES.map(|(_, entry)| gpu.kernel(&IMAGE, entry));
        let [e, f, g] = ROUTES_FEW.map(|entry| gpu.kernel(&IMAGE, entry));
        let (routes, few) = ([a?, b?, c?, d?], [e?, f?, g?]);
        Ok(Routing { routes, few, deal: gpu.kernel(&IMAGE, "deal")? })
    }

    /// Queues two launches, one for few rows; none for no rows.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let Plan { problem, route } = *plan;
        let Problem { rows, experts, per_token, router, tile_rows } = problem;
        let visits = problem.visits();
        let correction = args.correction.as_ref().map_or(0, |view| view.len());
        Lengths::of("routing")
            .at_least("logits", args.logits.len(), rows * experts)
            .at_least("live", args.live.as_ref().map_or(1, |view| view.len()), 1)
            .at_least("correction", correction, if router.correction { experts } else { 0 })
            .at_least("chosen", args.chosen.len(), visits)
            .at_least("weights", args.weights.len(), visits)
            .at_least("order", args.order.len(), visits)
            .at_least("tiles", args.tiles.len(), problem.most_tiles())
            .at_least("tile_count", args.tile_count.len(), 1)
            .check()?;
        if rows == 0 {
            return Ok(());
        }
        let correction = args.correction.filter(|_| router.correction);
        let routing = RouteParams {
            logits: args.logits.address(),
            correction: correction.map_or(0, |view| view.address()),
            chosen: args.chosen.address(),
            weights: args.weights.address(),
            live: args.live.map_or(0, |view| view.address()),
            rows: rows as u32,
            experts: experts as u32,
            per_token: per_token as u32,
            groups: router.groups.map_or(0, |groups| groups.count as u32),
            kept: router.groups.map_or(0, |groups| groups.kept as u32),
            sigmoid: u32::from(router.scores == RouterScores::Sigmoid),
            normalise: u32::from(router.normalise),
            scale: router.scale,
        };
        let dealing = DealParams {
            chosen: args.chosen.address(),
            order: args.order.address(),
            tiles: args.tiles.address(),
            tile_count: args.tile_count.address(),
            live: routing.live,
            rows: rows as u32,
            per_token: per_token as u32,
            experts: experts as u32,
            tile_rows: tile_rows as u32,
        };
        let dealers = Shape::linear(1, DEALERS);
        if let Some(few) = self.few.get(route).filter(|_| rows <= FEW) {
            let params = FewParams { route: routing, deal: dealing };
            // SAFETY: the struct mirrors the kernel's; lengths were found in the views above.
            return unsafe { stream.launch(few, dealers, &params) };
        }
        let shape = Shape::linear((rows as u32).div_ceil(WARPS), WARPS * 32);
        // SAFETY: as above.
        unsafe { stream.launch(&self.routes[route], shape, &routing)? };
        // SAFETY: as above; `chosen` holds numbers of experts, which `route` has just written.
        unsafe { stream.launch(&self.deal, dealers, &dealing) }
    }
}

#[cfg(test)]
mod tests;
