// Marks on an axis at steps of 1, 2 or 5 times a power of ten.
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

// Marks of a time axis over [start_ns, end_ns), at most `most` of them (> 0), labelled in the unit
// that suits the distance between them: "0", "20 ms", "1.5 us". O(marks).
std::vector<Tick> TimeTicks(double start_ns, double end_ns, int most);

// The same for signed times on an upright axis: "-2 ms", "+4 ms", "0".
std::vector<Tick> DriftTicks(double low_ns, double high_ns, int most);

// Marks of bytes from 0 to `high_bytes` at 1, 2 or 5 times a power of ten of a binary unit: "20
// GiB".
std::vector<Tick> ByteTicks(std::int64_t high_bytes, int most);

// The largest of 1, 2 or 5 times a power of ten that is not below `least` (> 0).
double NiceStep(double least);

// A time with as many digits as the width of a screen needs: "182.41 ms".
std::string PreciseTime(double time_ns);

// "+2.14 ms" or "-0.3 us": a difference of times, always with its sign; "0" for none.
std::string SignedTime(double time_ns);

// "+3.9 %", always with its sign.
std::string SignedPercent(double fraction);

// A name of the store as words: "optimizer state" for "optimizer_state".
std::string InWords(std::string_view name);

}  // namespace foretrain::ui
