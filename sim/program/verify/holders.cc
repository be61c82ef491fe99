#include <map>
#include <string>
#include <vector>

#include "sim/program/verify/checks.h"

namespace foretrain {
namespace {

// After so many steps every buffer of a ring has been reused once by another step.
constexpr int kStepsPlayed = 3;

// Identifies the value that some bytes hold: the step it serves, counted through the steps played,
// and its micro-batch.
struct Owner {
  int step = -1;
  int micro_batch = -1;
  std::int32_t op = -1;  // op that wrote it; -1 if it was never written

  bool operator==(const Owner& other) const {
    return step == other.step && micro_batch == other.micro_batch;
  }
};

// Plays a few steps in issue order. It tracks the owner of every byte range of the buffers that
// belong to a step or a micro-batch. Issue order is enough: CheckOrder shows that execution keeps
// it for conflicting accesses.
class Player {
 public:
  Player(const Program& program, const RankProgram& rank, const FlatStep& step)
      : program_(program), rank_(rank), step_(step), owners_(rank.buffers.size()) {}

  Result<void> Run() {
    for (int number = 0; number < kStepsPlayed; ++number) {
      for (std::int32_t op = 0; op < step_.Ops(); ++op) FT_TRY(Visit(op, number));
    }
    return {};
  }

 private:
  // An instruction that is `for_next_step` works for the next step. Buffers of a step compare the
  // step alone, those of a micro-batch both.
  Result<void> Visit(std::int32_t op, int number) {
    const Instruction& instruction =
        rank_.step[static_cast<std::size_t>(step_.instruction[static_cast<std::size_t>(op)])];
    for (const TensorAccess& access : step_.AccessesOf(op)) {
      const Buffer& buffer = rank_.buffers[static_cast<std::size_t>(access.buffer)];
      if (buffer.holds == Holds::kState) continue;
      Owner self{number + (instruction.for_next_step ? 1 : 0), -1, op};
      if (buffer.holds == Holds::kMicroBatch) self.micro_batch = instruction.key.micro_batch;
      auto& owners = owners_[static_cast<std::size_t>(access.buffer)];
      if (Reads(access)) FT_TRY(Read(owners, access, self));
      if (Writes(access)) Write(owners, access, self);
    }
    return {};
  }

  // Owner by the first byte of its range; a range ends where the next begins.
  using Owners = std::map<std::int64_t, Owner>;

  // Splits the range that contains byte `at`, so that an access can replace or read whole ranges.
  static void Cut(Owners& owners, std::int64_t at) {
    const auto next = owners.upper_bound(at);
    const Owner owner = next == owners.begin() ? Owner{} : std::prev(next)->second;
    owners.try_emplace(at, owner);
  }

  static void Write(Owners& owners, const TensorAccess& access, const Owner& self) {
    Cut(owners, access.begin);
    Cut(owners, access.end);
    owners.erase(owners.lower_bound(access.begin), owners.lower_bound(access.end));
    owners[access.begin] = self;
  }

  Result<void> Read(Owners& owners, const TensorAccess& access, const Owner& self) const {
    Cut(owners, access.begin);
    for (auto at = owners.find(access.begin); at != owners.end() && at->first < access.end; ++at) {
      const Owner& owner = at->second;
      // Before the first step nothing has been written, and its reads of older values are not an
      // error.
      const bool unwritten = owner.step < 0 && self.step == 0;
      if (owner == self || unwritten) continue;
      const std::string reads = DescribeOp(program_, rank_, step_, self.op) + " reads buffer " +
                                std::to_string(access.buffer);
      if (owner.step < 0) {
        return Fail(ErrorCode::kInvalidArgument, reads + " before anything is written for it");
      }
      return Fail(ErrorCode::kInvalidArgument,
                  reads + ", which holds what " + DescribeOp(program_, rank_, step_, owner.op) +
                      " wrote for " + (owner.step == self.step ? "" : "another step and ") +
                      "micro-batch " + std::to_string(owner.micro_batch));
    }
    return {};
  }

  const Program& program_;
  const RankProgram& rank_;
  const FlatStep& step_;
  std::vector<Owners> owners_;
};

// A buffer that lives within a step may be used only by instructions of the same step: all
// `for_next_step` or none.
Result<void> CheckTemporaries(const Program& program, const RankProgram& rank,
                              const FlatStep& step) {
  std::vector<std::int32_t> first(rank.buffers.size(), -1);
  const auto is_for_next_step = [&](std::int32_t op) {
    return rank.step[static_cast<std::size_t>(step.instruction[static_cast<std::size_t>(op)])]
        .for_next_step;
  };
  for (std::int32_t op = 0; op < step.Ops(); ++op) {
    for (const TensorAccess& access : step.AccessesOf(op)) {
      if (rank.buffers[static_cast<std::size_t>(access.buffer)].persistent) continue;
      std::int32_t& other = first[static_cast<std::size_t>(access.buffer)];
      if (other < 0) other = op;
      if (is_for_next_step(op) == is_for_next_step(other)) continue;
      return Fail(ErrorCode::kInvalidArgument, DescribeOp(program, rank, step, other) + " and " +
                                                   DescribeOp(program, rank, step, op) +
                                                   " serve different steps and touch buffer " +
                                                   std::to_string(access.buffer) +
                                                   ", which does not outlive a step");
    }
  }
  return {};
}

}  // namespace

Result<void> CheckHolders(const Program& program, const RankProgram& rank, const FlatStep& step) {
  if (!rank.WorksForNextStep()) return {};
  FT_TRY(CheckTemporaries(program, rank, step));
  return Player(program, rank, step).Run();
}

}  // namespace foretrain
