// The work of a measured step as the ops of its program: what a replay substitutes for the
// forecast's costs. attribution.h splits a gap by it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

// Class of ops whose work can be substituted. TP, CP and EP communication count as one class.
enum class GapClass : std::uint8_t {
  kGemm,
  kAttention,
  kMemoryBound,
  kModelParallel,
  kDataParallel,
  kPipeline,
  kCopies,
  kHost,
};
inline constexpr int kGapClassCount = 8;
// Lower-case name of a class, such as "gemm".
std::string_view Name(GapClass gap_class);
GapClass GapClassOf(OpClass op_class);
// Products, attention and ops bound by memory.
constexpr bool IsCompute(GapClass gap_class) { return gap_class <= GapClass::kMemoryBound; }

// Measured work of each op, by rank index and op number of the rank's step. NaN: no measurement was
// recorded.
struct MeasuredWork {
  std::vector<std::vector<double>> seconds;
  std::vector<std::vector<double>> launch_s;
  std::vector<std::vector<GapClass>> classes;
  std::array<bool, kGapClassCount> present{};
  double covered = 0;
};

// Gathers the measured seconds and launch seconds of each op of `step`. Communication has its wire
// time: from the arrival of its last member to its end. A class takes part in the attribution when
// the program has ops of it; the host class needs recorded launches or work.
Result<MeasuredWork> CollectWork(const Program& program, const Timeline& measured, int step);

}  // namespace foretrain
