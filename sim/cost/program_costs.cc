#include "sim/cost/program_costs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "sim/config/rules/refuse.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/network/plan_place.h"
#include "sim/program/graphs/graph_stretches.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// The rows of a program's costs. Ops with the same key share a row, so memory grows with distinct
// ops and not with steps or ranks.
class Rows {
 public:
  Rows(const CostModel& model, const Program& program, ProgramCosts& costs)
      : model_(model), straggling_(model.Straggling(program.plan.World())), costs_(costs) {
    if (!model.Scatters(program.plan)) return;
    scattered_ = PlaceOfGroup(model.cluster(), program.plan, {}, GroupKind::kTp,
                              GroupMembers(program.plan, {}, GroupKind::kTp));
  }

  // `together` is from GraphStretches; 1 without graphs.
  std::int32_t Of(std::int32_t block, std::int32_t number, const Op& op, const GroupPlace& place,
                  int together = 1) {
    const auto key = std::tuple(block, number, place, together);
    const auto [found, is_new] =
        rows_.try_emplace(key, static_cast<std::int32_t>(costs_.launch_s.size()));
    if (!is_new) return found->second;
    OpCost cost = model_.CostOf(op, place, scattered_.has_value() ? &*scattered_ : nullptr);
    if (IsCompute(op.op_class) && op.kind != OpKind::kOpaque) {
      for (double& seconds : cost.seconds) seconds *= straggling_;
    }
    costs_.seconds.insert(costs_.seconds.end(), cost.seconds.begin(), cost.seconds.end());
    costs_.launch_s.push_back(together == 1  ? cost.launch_s
                              : together > 1 ? model_.GraphLaunch(together)
                                             : 0.0);
    costs_.load.push_back(cost.load);
    costs_.measured_threads.push_back(cost.measured_threads);
    costs_.demand.push_back(cost.demand);
    costs_.provenance.push_back(cost.provenance);
    costs_.error.push_back(cost.error);
    return found->second;
  }

 private:
  const CostModel& model_;
  double straggling_;
  std::optional<GroupPlace> scattered_;
  ProgramCosts& costs_;
  std::map<std::tuple<std::int32_t, std::int32_t, GroupPlace, int>, std::int32_t> rows_;
};

// Rows of one rank's ops, block by block. A block that repeats is priced once.
class RankRows {
 public:
  RankRows(const Program& program, const RankProgram& rank, const ClusterSpec& cluster, Rows& rows)
      : program_(program),
        rank_(rank),
        cluster_(cluster),
        rows_(rows),
        of_block_(program.blocks.size()) {}

  const std::vector<std::int32_t>& Of(std::int32_t block) {
    std::optional<std::vector<std::int32_t>>& known = of_block_[At(block)];
    if (known.has_value()) return *known;
    known.emplace();
    const std::vector<Op>& ops = program_.blocks[At(block)].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      GroupPlace place;
      if (IsCommunication(ops[i].kind)) place = PlaceOf(ops[i].group);
      known->push_back(rows_.Of(block, static_cast<std::int32_t>(i), ops[i], place));
    }
    return *known;
  }

  // Gives ops in graphs rows of their own, because only their launch cost differs.
  void LaunchAsGraphs(std::vector<std::int32_t>& row_of) {
    const std::vector<std::int16_t> together = GraphStretches(program_, rank_);
    for (const Instruction& instruction : rank_.step) {
      const std::vector<Op>& ops = program_.blocks[At(instruction.block)].ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const std::size_t op = At(instruction.first_op) + i;
        if (together[op] == 1) continue;  // no communication, so it has no place
        row_of[op] =
            rows_.Of(instruction.block, static_cast<std::int32_t>(i), ops[i], {}, together[op]);
      }
    }
  }

 private:
  // Looked up once per kind of group: a rank is in at most one group of each kind.
  GroupPlace PlaceOf(GroupKind kind) {
    std::optional<GroupPlace>& place = places_[static_cast<std::size_t>(kind)];
    if (!place.has_value()) {
      const std::int32_t group = rank_.groups[static_cast<std::size_t>(kind)];
      place = group < 0 ? GroupPlace{}
                        : PlaceOfGroup(cluster_, program_.plan, rank_.Coordinates(), kind,
                                       program_.groups[At(group)]);
    }
    return *place;
  }

  const Program& program_;
  const RankProgram& rank_;
  const ClusterSpec& cluster_;
  Rows& rows_;
  std::vector<std::optional<std::vector<std::int32_t>>> of_block_;
  std::array<std::optional<GroupPlace>, kGroupKindCount> places_;
};

// Adds forward ops that full recomputation repeats although no backward reads them. Their time is
// charged to the last recomputed op of the layer; `charged` holds the rows that already have it.
void ChargeWholeForward(const Program& program, const RankProgram& rank,
                        const std::vector<std::int32_t>& row_of, std::set<std::int32_t>& charged,
                        ProgramCosts& costs) {
  std::map<std::int32_t, const Instruction*> forward;  // by model block
  for (const Instruction& instruction : rank.step) {
    if (instruction.key.kind != InstructionKind::kBlock) continue;
    if (instruction.key.pass == Pass::kForward) {
      forward.emplace(instruction.key.block, &instruction);
    }
    const auto whole = forward.find(instruction.key.block);
    if (instruction.key.pass != Pass::kRecompute || whole == forward.end()) continue;
    const std::vector<Op>& again = program.blocks[At(instruction.block)].ops;
    const std::vector<Op>& ops = program.blocks[At(whole->second->block)].ops;
    if (again.empty()) continue;
    const std::int32_t last = row_of[At(instruction.first_op) + again.size() - 1];
    if (!charged.insert(last).second) continue;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      const bool runs = std::any_of(again.begin(), again.end(),
                                    [&](const Op& other) { return other.name == ops[op].name; });
      if (runs) continue;
      const std::int32_t row = row_of[At(whole->second->first_op) + op];
      for (std::size_t level = 0; level < costs.levels.size(); ++level) {
        costs.seconds[At(last) * costs.levels.size() + level] +=
            costs.seconds[At(row) * costs.levels.size() + level];
      }
    }
  }
}

// Number of ranks of its node that the rank represents. If ranks are left out of the program, it
// represents its whole stage.
double WeightOf(const Program& program, const RankProgram& rank, int devices_per_node) {
  const int world = program.plan.World();
  if (static_cast<int>(program.ranks.size()) >= world) return 1.0;
  const int stage = program.plan.World() / program.plan.pp;
  const int node = rank.rank / devices_per_node;
  int count = 0;
  for (int r = rank.pp * stage; r < (rank.pp + 1) * stage; ++r) {
    if (r / devices_per_node == node) ++count;
  }
  return count;
}

}  // namespace

// Prices each rank's ops. A GPU is its own domain; CPU ranks of one node share one, so their
// threads slow one another down. Without demand for connections the table is dropped, and the
// simulator skips wires.
Result<ProgramCosts> CostModel::CostsOf(const Program& program) const {
  if (program.plan.World() > cluster_.Devices()) {
    const int ranks = program.plan.World(), node = cluster_.devices_per_node;
    const std::string remedy =
        cluster_.is_cpu ? fmt::format("give --ranks {}", ranks)
                        : fmt::format("give --cluster {}x{}x{}", (ranks + node - 1) / node, node,
                                      ToLower(cluster_.device.name));
    return Refuse("the plan has {} ranks, cluster {} has {} devices; {}", ranks, cluster_.name,
                  cluster_.Devices(), remedy);
  }
  ProgramCosts costs;
  costs.levels = levels();
  Rows rows(*this, program, costs);
  std::set<std::int32_t> charged;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    RankRows rank_rows(program, rank, cluster_, rows);
    std::vector<std::int32_t>& row_of = costs.row_of.emplace_back();
    row_of.reserve(At(rank.op_count));
    for (const Instruction& instruction : rank.step) {
      const std::vector<std::int32_t>& of_block = rank_rows.Of(instruction.block);
      row_of.insert(row_of.end(), of_block.begin(), of_block.end());
    }
    if (profile_.system.cuda_graphs && !cluster_.is_cpu) rank_rows.LaunchAsGraphs(row_of);
    if (profile_.system.whole_recompute) {
      ChargeWholeForward(program, rank, row_of, charged, costs);
    }
    costs.domain.push_back(cluster_.is_cpu ? rank.rank / cluster_.devices_per_node
                                           : static_cast<std::int32_t>(r));
    costs.weight.push_back(cluster_.is_cpu ? WeightOf(program, rank, cluster_.devices_per_node)
                                           : 1.0);
  }
  if (!std::any_of(costs.demand.begin(), costs.demand.end(),
                   [](const WireDemand& demand) { return demand != WireDemand{}; })) {
    costs.demand.clear();
  }
  const double busy =
      cluster_.is_cpu ? std::min(program.plan.World(), cluster_.devices_per_node) : 1;
  costs.cores = cluster_.is_cpu ? cluster_.cores : 0;
  costs.gap_s = Overhead(OverheadKind::kGap, busy);
  costs.wake_s = Overhead(OverheadKind::kWake, busy);
  return costs;
}

// Weights each row by its number of uses and its time without contention.
CostQuality QualityOf(const ProgramCosts& costs) {
  std::vector<std::int64_t> uses(costs.launch_s.size(), 0);
  for (const std::vector<std::int32_t>& rank : costs.row_of) {
    for (const std::int32_t row : rank) ++uses[At(row)];
  }
  CostQuality quality;
  double sum = 0;
  for (std::size_t row = 0; row < uses.size(); ++row) {
    const double seconds =
        static_cast<double>(uses[row]) * costs.Alone(static_cast<std::int32_t>(row));
    quality.share[static_cast<std::size_t>(costs.provenance[row])] += seconds;
    quality.error += seconds * costs.error[row];
    sum += seconds;
  }
  if (sum <= 0) return {};
  for (double& share : quality.share) share /= sum;
  quality.error /= sum;
  return quality;
}

}  // namespace foretrain
