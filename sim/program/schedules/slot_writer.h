// Writes the slots of a rank with two chunks: counts the micro-batches of each pass and chunk, and
// keeps the deferred weight gradients.
#pragma once

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

class SlotWriter {
 public:
  // Chunk c takes micro-batches first[c] .. first[c] + count[c] - 1. Calls beyond the last one
  // write nothing.
  SlotWriter(std::array<int, 2> first, std::array<int, 2> count) : first_(first), count_(count) {}

  void Forward(int chunk, bool paired = false) { Next(forward_, Pass::kForward, chunk, paired); }
  void Backward(int chunk) { Next(backward_, Pass::kBackward, chunk, false); }
  // Writes an input half and defers its weight half.
  void Input(int chunk) {
    const int before = backward_[At(chunk)];
    if (Next(backward_, Pass::kBackwardInput, chunk, false)) {
      owed_.emplace_back(chunk, first_[At(chunk)] + before);
    }
  }
  // Writes the oldest deferred weight half, of any chunk or of one; nothing if none is deferred.
  void Weight() {
    if (owed_.empty()) return;
    Pay(owed_.begin());
  }
  void Weight(int chunk) {
    for (auto owed = owed_.begin(); owed != owed_.end(); ++owed) {
      if (owed->first != chunk) continue;
      return Pay(owed);
    }
  }
  // Writes a forward of one chunk overlapped with a backward of the other.
  void Pair(int forward, int backward) {
    Forward(forward, /*paired=*/true);
    Backward(backward);
  }

  std::vector<Slot> Take() { return std::move(slots_); }

 private:
  static std::size_t At(int chunk) { return static_cast<std::size_t>(chunk); }
  bool Next(std::array<int, 2>& counter, Pass pass, int chunk, bool paired) {
    const int number = counter[At(chunk)];
    if (number >= count_[At(chunk)]) return false;
    ++counter[At(chunk)];
    slots_.push_back({pass, chunk, first_[At(chunk)] + number, paired});
    return true;
  }
  void Pay(std::deque<std::pair<int, int>>::iterator owed) {
    slots_.push_back({Pass::kBackwardWeight, owed->first, owed->second});
    owed_.erase(owed);
  }

  std::array<int, 2> first_, count_;
  std::array<int, 2> forward_{}, backward_{};
  std::deque<std::pair<int, int>> owed_;  // deferred weight halves: (chunk, micro-batch)
  std::vector<Slot> slots_;
};

}  // namespace foretrain
