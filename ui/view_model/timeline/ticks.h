// Computes axis ticks at steps of 1, 2 or 5 times a power of ten, and formats times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain::ui {

struct Tick {
  double value = 0.0;
  std::string label;
};

// Ticks of a time axis over [start_ns, end_ns), about `max` of them (> 0), labelled in the unit
// that suits their distance: "0", "20 ms", "1.5 us". O(ticks).
std::vector<Tick> TimeTicks(double start_ns, double end_ns, int max);

// The same for signed times on a vertical axis: "-2 ms", "+4 ms", "0".
std::vector<Tick> DriftTicks(double low_ns, double high_ns, int max);

// Ticks from 0 to `high_bytes` at 1, 2 or 5 times a power of ten of a binary unit: "20 GiB".
std::vector<Tick> ByteTicks(std::int64_t high_bytes, int max);

// The smallest of 1, 2 or 5 times a power of ten that is at least `min` (> 0).
double NiceStep(double min);

// A time with as many digits as a screen can resolve: "182.41 ms".
std::string PreciseTime(double time_ns);

// A difference of times, with its sign: "+2.14 ms", "-0.3 us"; "0" if there is none.
std::string SignedTime(double time_ns);

// "+3.9 %", always with its sign; "no base" if it is not finite.
std::string SignedPercent(double fraction);

// A stored name as words: "optimizer state" for "optimizer_state".
std::string InWords(std::string_view name);

}  // namespace foretrain::ui
