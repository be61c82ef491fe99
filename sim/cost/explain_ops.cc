#include "sim/cost/explain_ops.h"

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "sim/config/rules/refuse.h"
#include "sim/cost/network/plan_place.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxNamesShown = 100;

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// True if `name` is `pattern`, where * stands for any letters, also none. Each star first takes
// none, and one more letter whenever the rest does not match.
bool Matches(std::string_view name, std::string_view pattern) {
  std::size_t n = 0, p = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

GroupPlace PlaceOf(const Program& program, const RankProgram& rank, const Op& op,
                   const ClusterSpec& cluster) {
  if (!IsCommunication(op.kind)) return {};
  const std::int32_t group = rank.groups[static_cast<std::size_t>(op.group)];
  if (group < 0) return {};
  return PlaceOfGroup(cluster, program.plan, rank.Coordinates(), op.group,
                      program.groups[At(group)]);
}

// The op's cost in the program, and how the model found it. The program adds to that of the op
// alone: the slowest device, and ops that full recomputation repeats.
ExplainedOp Explain(const Program& program, const RankProgram& rank, const CostModel& model,
                    const std::optional<GroupPlace>& scattered, const Op& op) {
  ExplainedOp out;
  out.op = op;
  out.rank = rank.rank;
  out.place = PlaceOf(program, rank, op, model.cluster());
  const OpWork work = WorkOf(op);
  out.flop = work.flop;
  out.bytes = work.bytes;
  out.terms = model.Explain(op, out.place, scattered.has_value() ? &*scattered : nullptr);
  if (IsCompute(op.op_class) && op.kind != OpKind::kOpaque) {
    out.terms.Factor("slowest of all devices", model.Straggling(program.plan.World()));
  }
  return out;
}

std::string NamesOf(const Program& program) {
  std::set<std::string_view> names;
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) names.insert(op.name);
  }
  std::string text;
  std::size_t shown = 0;
  for (const std::string_view name : names) {
    if (++shown > kMaxNamesShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

}  // namespace

// Ops of one block at one place have one row of costs, so block, number, place and row tell them
// apart.
Result<std::vector<ExplainedOp>> ExplainOps(const Program& program, const ProgramCosts& costs,
                                            const CostModel& model, std::string_view pattern) {
  std::optional<GroupPlace> scattered;
  if (model.Scatters(program.plan)) {
    scattered = PlaceOfGroup(model.cluster(), program.plan, {}, GroupKind::kTp,
                             GroupMembers(program.plan, {}, GroupKind::kTp));
  }
  std::vector<ExplainedOp> out;
  std::map<std::tuple<std::int32_t, std::size_t, std::int32_t>, std::size_t> known;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    for (const Instruction& instruction : rank.step) {
      const Block& block = program.blocks[At(instruction.block)];
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        if (!Matches(block.ops[i].name, pattern)) continue;
        const std::int32_t row = costs.row_of[r][At(instruction.first_op) + i];
        const auto [at, is_new] = known.try_emplace({instruction.block, i, row}, out.size());
        if (!is_new) {
          if (out[at->second].rank == rank.rank) ++out[at->second].times;
          continue;
        }
        ExplainedOp op = Explain(program, rank, model, scattered, block.ops[i]);
        op.block = block.name;
        op.pass = instruction.key.pass;
        op.times = 1;
        op.seconds = costs.Alone(row);
        op.launch_s = costs.launch_s[At(row)];
        op.provenance = costs.provenance[At(row)];
        op.error = costs.error[At(row)];
        const double more = op.seconds - op.terms.Total();
        const bool repeats = model.profile().system.whole_recompute &&
                             instruction.key.pass == Pass::kRecompute && i + 1 == block.ops.size();
        if (repeats && more > 0) op.terms.Seconds("forward ops that no backward reads", more);
        out.push_back(std::move(op));
      }
    }
  }
  if (out.empty()) {
    return Refuse("no op matches \"{}\"; the program has {}", Printable(pattern), NamesOf(program));
  }
  return out;
}

}  // namespace foretrain
