// Who computes where many ranks take turns on one device: one op of one rank at a time, so that
// each op is measured as if it were alone. Leaves out what is made of that: sim/compare/emulate.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "runtime/gate.h"

namespace foretrain {

class ComputeTurns {
 public:
  // `on`: there are turns; else nobody waits.
  ComputeTurns(RunClock& clock, RunControl& control, bool on) : gate_(clock, control), on_(on) {}

  // Given back with its end.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(ComputeTurns* of) : of_(of) {}
    Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(of_, other.of_);
      return *this;
    }
    ~Turn() {
      if (of_ == nullptr) return;
      of_->holder_.store(0);
      of_->gate_.Wake();
    }

   private:
    ComputeTurns* of_ = nullptr;
  };

  bool on() const { return on_; }

  // Waits for the turn; `who` > 0 tells threads apart. kReady: `turn` holds it.
  WaitEnd Take(std::int64_t who, std::int64_t deadline_ns, Turn& turn) {
    const WaitEnd end = gate_.Wait(
        [&] {
          std::int64_t nobody = 0;
          return holder_.compare_exchange_strong(nobody, who) || nobody == who;
        },
        deadline_ns);
    if (end == WaitEnd::kReady) turn = Turn(this);
    return end;
  }

 private:
  Gate gate_;
  const bool on_;
  std::atomic<std::int64_t> holder_{0};
};

}  // namespace foretrain
