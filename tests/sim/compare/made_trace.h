// Makes a trace, as another trainer's profiler would write it, of a forecast's step: kernels in
// place of ops, with names, lengths and passes of their own. Which op each kernel belongs to is
// known.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/forecast/forecast.h"
#include "traces/timeline.h"

namespace foretrain {

enum class TraceStyle : std::uint8_t {
  kFused,  // as Megatron-LM with Transformer Engine: fused attention and norms, sums of residuals
           // within them, casts of weights
  kEager,  // as PyTorch without compilation: attention and norms of several kernels
};

struct MadeTraceOptions {
  TraceStyle style = TraceStyle::kFused;
  bool passes = true;   // whether the trace tells forward, backward and update
  bool layers = false;  // whether it tells layers
  std::uint64_t seed = 1;
};

struct MadeTrace {
  Timeline timeline;        // one step, 0
  std::vector<OpId> truth;  // [span]: the op that it belongs to; kNoOp: none
};

// The forecast's timeline with names of its ops, for the same pairing.
Timeline NamedTimeline(const Forecast& forecast);

// The kernels of the last step of `forecast`. Lengths are those of the ops times a factor of their
// class, and random within about 15 %.
MadeTrace TraceOf(const Timeline& forecast, int step, const MadeTraceOptions& options);

}  // namespace foretrain
