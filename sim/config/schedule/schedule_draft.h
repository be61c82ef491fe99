// A pipeline schedule as a file or an editor states it: actions of stages, in order, for each
// rank. It may be wrong; check_schedule.h says how, and slot_order.h holds what is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

// Bounds of a draft. A rank has one cell for each pass of each of its stages.
inline constexpr std::size_t kMaxScheduleRanks = 4096;
inline constexpr std::size_t kMaxScheduleActions = std::size_t{1} << 20;
inline constexpr int kMaxScheduleStage = (1 << 20) - 1;
inline constexpr int kMaxScheduleMicroBatch = (1 << 18) - 1;  // as ids hold (plan.h)

// "1B3": the backward of micro-batch 3 on stage 1. Passes as in slot.h.
struct ScheduleAction {
  Pass pass = Pass::kForward;
  int stage = 0;
  int micro_batch = 0;
  bool paired = false;  // with the next action of the rank: the two run as one
  int cell = 0;         // of the file's line, from 1, for messages

  // The place in a file does not count.
  bool operator==(const ScheduleAction& other) const {
    return pass == other.pass && stage == other.stage && micro_batch == other.micro_batch &&
           paired == other.paired;
  }
};

struct ScheduleDraft {
  std::vector<std::vector<ScheduleAction>> ranks{};  // by rank, in the order of issue
  // Communication that the file states (SEND_F, UNSHARD, ...) and that foretrain derives itself.
  std::int64_t skipped = 0;

  std::size_t ActionCount() const {
    std::size_t count = 0;
    for (const auto& rank : ranks) count += rank.size();
    return count;
  }
};

// "1B3", as files spell it.
std::string NameOf(const ScheduleAction& action);

}  // namespace foretrain
