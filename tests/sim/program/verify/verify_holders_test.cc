// Refusals of programs whose steps overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/opaque.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// p = 3, m = 3: rank 0 has three micro-batches in flight.
Program Overlapping() { return OpaquePipeline(ScheduleKind::kPipeDream, {3, 3}, {1, 1, 1}, false); }

std::string WhyRefused(Program& program) {
  Link(program);
  const auto verified = Verify(program);
  EXPECT_FALSE(verified.has_value());
  return verified.has_value() ? "" : verified.error().message;
}

TEST(VerifyOverlap, RefusesARingThatIsTooSmall) {
  Program program = Overlapping();
  RankProgram& rank = program.ranks[0];
  std::vector<std::int32_t> ring;
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    const Buffer& buffer = rank.buffers[i];
    if (buffer.persistent && buffer.category == Category::kActivations) {
      ring.push_back(static_cast<std::int32_t>(i));
    }
  }
  ASSERT_EQ(ring.size(), 3U);
  for (Binding& binding : rank.bindings) {
    if (binding.buffer == ring[2]) binding.buffer = ring[1];
  }
  EXPECT_THAT(WhyRefused(program), HasSubstr("which holds what rank 0: forward block 0 mb"));
}

TEST(VerifyOverlap, RefusesATransferWithOneEndAhead) {
  Program program = Overlapping();
  for (Instruction& instruction : program.ranks[1].step) {
    if (instruction.key.kind == InstructionKind::kRecv) instruction.for_next_step = false;
  }
  EXPECT_THAT(WhyRefused(program), HasSubstr("(recv) on recv-1 wrote for another step"));
  for (Buffer& buffer : program.ranks[1].buffers) buffer.holds = Holds::kState;
  EXPECT_THAT(WhyRefused(program), HasSubstr("one works for the next step, the other does not"));
}

TEST(VerifyOverlap, RefusesABackwardOfTheNextStep) {
  Program program = Overlapping();
  for (Instruction& instruction : program.ranks[0].step) {
    if (instruction.key.pass == Pass::kBackward) instruction.for_next_step = true;
  }
  EXPECT_THAT(WhyRefused(program), HasSubstr("has a backward of the next step's batch"));
}

// If the transfer that fills a buffer works ahead and the pass that reads it does not, the buffer
// must outlive the step.
TEST(VerifyOverlap, RefusesATemporaryOfTwoSteps) {
  Program program = Overlapping();
  for (Buffer& buffer : program.ranks[2].buffers) {
    buffer.persistent = false;
    buffer.holds = Holds::kState;
  }
  for (Instruction& instruction : program.ranks[2].step) {
    if (instruction.key.kind == InstructionKind::kRecv) continue;
    EXPECT_FALSE(instruction.for_next_step);
  }
  EXPECT_THAT(WhyRefused(program), HasSubstr("buffer"));
}

}  // namespace
}  // namespace foretrain
