// Turn-taking of ranks that share one device: one op of one rank at a time, so that each op is
// measured as if alone. sim/compare/emulate.h uses the result.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "runtime/run/gate.h"

namespace foretrain {

class ComputeTurns {
 public:
  // `on`: turns are taken; else nobody waits.
  ComputeTurns(RunClock& clock, RunControl& control, bool on) : gate_(clock, control), on_(on) {}

  // A turn; given back on destruction.
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

  // Waits for the turn. `who` > 0 identifies the thread. kReady: `turn` holds the turn.
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
