// What is known of a device's speed: measured ops at measured sizes, and rates for all the rest.
// `calibrate` and learning from runs add points; DeriveProfile makes one from published peaks.
// Leaves out how a time is made of them (cost_model.h) and the text form (profile_json.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/attention_times.h"
#include "sim/cost/figure.h"
#include "sim/cost/gemm_algorithms.h"
#include "sim/cost/kernel_model.h"
#include "sim/program/op.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/system_options.h"

namespace foretrain {

// The time of one op as it was measured. What identifies it is what its time depends on: kind,
// shape, flags, group and `concurrency`.
struct ProfilePoint {
  OpKind kind = OpKind::kGemm;
  OpShape shape;
  bool accumulate = false;
  bool trans_a = false;
  bool trans_b = false;
  bool rms = false;
  NumberFormat format = NumberFormat::kFp32;
  OperandFormats formats{};
  Space from = Space::kDevice;  // copy
  Space to = Space::kDevice;    // copy
  int group = 1;                // members of a collective; 2 for p2p
  int nodes = 1;                // that the group spans
  int concurrency = 1;  // ranks of the machine that were busy with it at once; >= group on one node
  double seconds = 0;   // median; collectives and p2p: from the last arrival; > 0
  double p10_s = 0;
  double p90_s = 0;
  int samples = 1;

  bool operator==(const ProfilePoint&) const = default;
};

// Time that an op costs beside its work.
enum class OverheadKind : std::uint8_t {
  kLaunch,  // host, to issue one op
  kGap,     // queue, between the end of an op and the start of the next
  kWake,    // queue that had gone idle, from the last input to the start
};
inline constexpr int kOverheadKindCount = 3;
std::string_view Name(OverheadKind kind);  // "launch", "gap", "wake"

struct OverheadPoint {
  OverheadKind kind = OverheadKind::kLaunch;
  int concurrency = 1;
  double seconds = 0;  // median, >= 0
  double p10_s = 0;
  double p90_s = 0;
  int samples = 1;

  bool operator==(const OverheadPoint&) const = default;
};

// For ops and sizes without points. Rates are those of one rank alone, > 0; times >= 0.
struct ProfileRates {
  Figure gemm_flop_per_s;  // of a large GEMM
  Figure gemm_fill_s;      // added to each GEMM: what makes small ones inefficient
  Figure attention_forward_flop_per_s;
  Figure attention_backward_flop_per_s;
  Figure memory_bytes_per_s;  // of a large memory-bound op
  Figure kernel_s;            // added to each op on a device queue
  Figure launch_s;
  Figure gap_s;
  Figure wake_s;
  Figure copy_bytes_per_s;  // between host and device, per direction
  Figure host_read_s;
  Figure link_bytes_per_s;  // between devices of a node, per direction
  Figure link_base_s;       // of a collective or transfer
  Figure link_hop_s;        // of each further hop of a ring or tree
  Figure network_bytes_per_s;
  Figure network_base_s;
  Figure network_hop_s;
  Figure overlap_slowdown;  // of compute while communication runs beside it; >= 1
  // Of the host, one rank's share where all ranks of a node are at work. Files may leave them out.
  Figure host_bytes_per_s{25e9};  // of its memory, to ops of the queue cpu
  Figure nvme_read_bytes_per_s{1.5e9};
  Figure nvme_write_bytes_per_s{0.75e9};
  Figure nvme_base_s{100e-6};  // added to each read and write
  // That a collective takes longer, on its queue and on the host, for each member beyond the first:
  // ranks do not come at one time. Files may leave it out.
  Figure member_skew_s{0};
  // Host time to launch a CUDA graph, and for each op in it more. Where nothing was measured: 2.5
  // us and 1 ns a node, as NVIDIA gives for graphs without branches (developer.nvidia.com/blog,
  // "Constant Time Launch for Straight-Line CUDA Graphs", 2024: CUDA 12.6, Ampere and later). Files
  // may leave them out.
  Figure graph_launch_s{2.5e-6};
  Figure graph_op_s{1e-9};
  // Of a large GEMM in other formats than fp32; 0: not known. Files may leave them out.
  Figure gemm_tf32_flop_per_s;
  Figure gemm_fp16_flop_per_s;
  Figure gemm_bf16_flop_per_s;
  Figure gemm_fp8_flop_per_s;
  Figure gemm_fp4_flop_per_s;

  bool operator==(const ProfileRates&) const = default;
};

// One GEMM whose time is measured again before a run is held against a forecast: machines drift.
struct ReferenceGemm {
  std::int64_t rows = 0;  // 0: none was measured
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  double seconds = 0;

  bool operator==(const ReferenceGemm&) const = default;
};

// Of what has no points, one standard deviation of the logarithm: measured on published runs that
// nothing was fitted to (docs/validation.md, Intervals).
inline constexpr double kUnfittedError = 0.20;

struct DeviceProfile {
  std::string device;   // "NVIDIA H200", "cpu"
  std::string machine;  // host name and processor
  std::string date;     // of the measurement, ISO 8601; empty: derived
  std::string assumptions;
  ProfileRates rates;
  // Of a GPU of a known architecture: stands before the rates where an op of compute has no points.
  std::optional<KernelModel> kernels;
  // What the software does that runs on it; its host_op_s is in rates.launch_s.
  SystemOptions system;
  double error = kUnfittedError;  // of what has no points, relative: one standard deviation
  ReferenceGemm reference;
  std::vector<OverheadPoint> overheads;
  std::vector<ProfilePoint> points;
  GemmAlgorithms gemm_algorithms;  // what runs on it compute products with
  AttentionTimes attention_times;  // by which they choose attention's kernels

  bool operator==(const DeviceProfile&) const = default;
};

// The rate of a large GEMM that computes in `format`, where it is not known that of the next longer
// one that is: fp4, fp8, bf16 or fp16, tf32, fp32. Attention runs in proportion.
Figure GemmRate(const ProfileRates& rates, NumberFormat format);

// The point that a measurement of `op` makes; times are left to the caller.
ProfilePoint PointOf(const Op& op, int group = 1, int nodes = 1, int concurrency = 1);

// Gives the profile the habits of a system: its options, and its host's time to issue an op in the
// place of what the profile has of that.
void LaySystem(const SystemOptions& system, DeviceProfile& profile);

// Whether two points measure the same, whatever came out.
bool SameKey(const ProfilePoint& a, const ProfilePoint& b);

// Puts `point` in the place of the one with its key, or at the end. O(points).
void AddPoint(DeviceProfile& profile, const ProfilePoint& point);

// The best rate of a measured GEMM alone on the machine, else the assumed one: what MFU is held
// against where no peak is published. FLOP/s.
Figure BestGemmRate(const DeviceProfile& profile);

// Refuses what no cost can be made of: rates outside 1e-3 to 1e21 a second, times outside 0 to 1e6
// s (of a point: from 1e-12 s), points without sizes, concurrency or samples, points of opaque ops;
// more than 100,000 points.
Result<void> ValidateProfile(const DeviceProfile& profile);

}  // namespace foretrain
