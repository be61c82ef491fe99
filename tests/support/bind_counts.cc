#include "tests/support/bind_counts.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/program/ir/row_counts.h"

namespace foretrain {
namespace {

std::size_t Index(std::int64_t index) { return static_cast<std::size_t>(index); }

// Only ops whose shape has members depend on counts.
bool Follows(const Op& op) { return op.shape.members > 0; }

// Replaces the rows that the op expected by those that came or were sent. Which size holds the rows
// depends on the kind of op.
void SetRows(const RowCounts& counts, Op& op) {
  OpShape& shape = op.shape;
  const std::int64_t rows = counts.AllCame();
  if (op.kind == OpKind::kReadCounts) return;
  if (op.kind == OpKind::kAllToAllV) {
    shape.elements = (op.inverse ? rows : counts.AllSent()) * shape.cols;
  } else if ((op.kind == OpKind::kGroupedGemm && op.trans_a) || op.kind == OpKind::kQuantize) {
    shape.inner = rows;
  } else {
    shape.rows = rows;
  }
}

// The counts of one instruction, by router.
using CountsOf = std::map<std::string_view, const std::vector<std::int32_t>*>;

class Binder {
 public:
  Binder(Program& program, std::span<const RouterCounts> counts) : program_(program) {
    for (const RouterCounts& one : counts) {
      counts_.emplace(std::tuple(one.rank, one.block, one.micro_batch, one.router), &one.counts);
    }
  }

  // Replaces the block of every instruction that depends on counts. The rank's position in its
  // expert-parallel group tells which of the counts are its own.
  Result<void> Bind(RankProgram& rank) {
    const std::int32_t group = rank.groups[static_cast<std::size_t>(GroupKind::kEp)];
    for (Instruction& instruction : rank.step) {
      FT_ASSIGN(const CountsOf counts, Find(rank.rank, instruction));
      if (counts.empty()) continue;
      FT_CHECK(group >= 0);
      const std::vector<int>& members = program_.groups[Index(group)];
      const auto place = std::find(members.begin(), members.end(), rank.rank) - members.begin();
      instruction.block = BlockOf(instruction.block, static_cast<int>(place), counts);
    }
    return {};
  }

 private:
  // The counts of each router that an op of the instruction refers to.
  Result<CountsOf> Find(int rank, const Instruction& instruction) const {
    CountsOf of;
    const InstructionKey& key = instruction.key;
    for (const Op& op : program_.blocks[Index(instruction.block)].ops) {
      if (!Follows(op) || of.contains(RouterOf(op.name))) continue;
      const std::string router(RouterOf(op.name));
      const auto found = counts_.find({rank, key.block, key.micro_batch, router});
      const auto size = Index(RowCounts::Numbers(op.shape));
      if (found == counts_.end() || found->second->size() != size) {
        return Fail(
            ErrorCode::kInvalidArgument,
            "rank " + std::to_string(rank) + ", " + Describe(PackId(key)) + ", " + op.name + ": " +
                (found == counts_.end() ? "no counts of pairs"
                                        : std::to_string(found->second->size()) +
                                              " counts of pairs, not " + std::to_string(size)));
      }
      of.emplace(RouterOf(op.name), found->second);
    }
    return of;
  }

  // The block bound to these counts. Instructions with equal counts share one copy.
  std::int32_t BlockOf(std::int32_t block, int member, const CountsOf& counts) {
    std::vector<std::int32_t> all;
    for (const auto& [router, some] : counts) all.insert(all.end(), some->begin(), some->end());
    const auto [found, is_new] = bound_.try_emplace(
        {block, member, std::move(all)}, static_cast<std::int32_t>(program_.blocks.size()));
    if (!is_new) return found->second;
    Block copy = program_.blocks[Index(block)];
    for (Op& op : copy.ops) {
      if (!Follows(op)) continue;
      const OpShape shape = op.shape;
      SetRows(RowCounts(shape, member, counts.at(RouterOf(op.name))->data()), op);
    }
    program_.blocks.push_back(std::move(copy));
    return found->second;
  }

  Program& program_;
  std::map<std::tuple<int, int, int, std::string>, const std::vector<std::int32_t>*> counts_;
  std::map<std::tuple<std::int32_t, int, std::vector<std::int32_t>>, std::int32_t> bound_;
};

}  // namespace

Result<Program> BindCounts(const Program& program, std::span<const RouterCounts> counts) {
  Program bound = program;
  Binder binder(bound, counts);
  for (RankProgram& rank : bound.ranks) FT_TRY(binder.Bind(rank));
  return bound;
}

}  // namespace foretrain
