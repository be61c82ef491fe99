// Arithmetic and traffic of kernels, as the shapes of the ops that launched them say.
#pragma once

#include <cstdint>
#include <string>

namespace foretrain {

// The calls of a kernel whose work is known, together. An op with several kernels shares its work
// among them by their times.
struct KernelWork {
  double flops = 0;          // a multiply-add counts 2; 0: no product, or unknown
  double bytes = 0;          // at least: those of the inputs, and of the results of products
  std::int64_t time_ns = 0;  // of these calls; 0: nothing is known
  std::string format{};      // number format of the first inputs; empty: unknown, or several

  bool IsKnown() const { return time_ns > 0; }
  double FlopPerSecond() const { return IsKnown() ? flops / Seconds() : 0.0; }
  double BytesPerSecond() const { return IsKnown() ? bytes / Seconds() : 0.0; }

  void Add(const KernelWork& more) {
    if (!more.IsKnown()) return;
    if (!IsKnown()) format = more.format;
    if (format != more.format) format.clear();
    flops += more.flops;
    bytes += more.bytes;
    time_ns += more.time_ns;
  }

  bool operator==(const KernelWork&) const = default;

 private:
  double Seconds() const { return static_cast<double>(time_ns) * 1e-9; }
};

}  // namespace foretrain
