// The kernels of a run: calls and time by name and launch, and the launches of each op. The store
// keeps it as the attachment "kernels". Leaves out single calls: spans have the times of whole ops.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/kernels/kernel_launch.h"
#include "traces/kernels/kernel_work.h"
#include "traces/kinds.h"

namespace foretrain {

class JsonWriter;

// The attachment's name.
inline constexpr std::string_view kKernelsAttachment = "kernels";

// All calls of one kernel that were launched alike.
struct KernelRow {
  std::string name{};  // as in C++
  KernelLaunch launch{};
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
  KernelWork work{};

  bool operator==(const KernelRow&) const = default;
};

struct KernelTable {
  int capability = 0;             // of the GPUs, as 10 * major + minor; 0: unknown
  std::string gpu{};              // the driver's name of all GPUs; empty: unknown, or several
  std::vector<KernelRow> rows{};  // no two have the same name and launch
  // Rows of an op's kernels, ascending, by NameKey of the op: micro-batches share an entry.
  std::map<OpId, std::vector<std::uint32_t>> ops{};

  // Adds calls, times and ops of another table, e.g. of another process. Rows of `more` may repeat
  // a name and launch.
  void Add(const KernelTable& more);

  // The row is one of the op's. kNoOp is ignored. O(rows of the op).
  void Own(OpId op, std::uint32_t row);

  // Rows of the op; empty if the op has no kernel or its kernels are unknown.
  std::vector<const KernelRow*> Of(OpId op) const;

  bool operator==(const KernelTable&) const = default;
};

// {"schema": 1, "compute_capability": "9.0", "kernels": [{"name", "calls", "total_s", "launches":
// [{"grid", "block", "registers", "static_shared_bytes", "dynamic_shared_bytes", "calls",
// "total_s", "work": {"flop", "bytes", "time_s", "format"}}]}], "ops": {"ID": [0, 3]}}: kernels and
// launches with the longest first. "gpu" has the name of the GPUs. "ops" numbers all launches
// through, from 0. What is unknown is left out.
std::string KernelsToJson(const KernelTable& table);

// The keys grid, block, registers, static_shared_bytes and dynamic_shared_bytes into the open
// object; nothing if the launch is unknown.
void WriteLaunch(JsonWriter& json, const KernelLaunch& launch);

// Reads what KernelsToJson wrote, and the attachments of older programs, which had no launches.
// Rows come in the text's order. Errors: kCorruptInput or kInvalidArgument, naming `source` and the
// field.
Result<KernelTable> KernelsFromJson(std::string_view text, std::string_view source);

// "void ns::gemm<float, 8>" for "void ns::gemm<float, 8>(float const*)".
std::string_view WithoutParameters(std::string_view name);

// "gemm" for "void ns::gemm<float, 8>(float const*)": the name without return type, namespaces,
// template arguments and parameters, for columns. Of a kernel that only runs what its template
// argument says it also has that: "device_kernel<GemmUniversal>". A name of another form is
// returned as it is.
std::string ShortKernelName(std::string_view name);

}  // namespace foretrain
