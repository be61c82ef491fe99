// A device's measured speed: ops at measured sizes, and rates for everything else. `calibrate` and
// learning from runs add points; DeriveProfile makes one from published peaks. cost_model.h
// computes times, profile_json.h is the text form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/plan/system_options.h"
#include "sim/cost/kernels/attention_times.h"
#include "sim/cost/kernels/gemm_algorithms.h"
#include "sim/cost/kernels/kernel_model.h"
#include "sim/cost/profile/figure.h"
#include "sim/cost/profile/learned_state.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Measured time of one op. Its key is everything that its time depends on: kind, shape, flags,
// formats, group and `concurrency`.
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
  int nodes = 1;                // nodes that the group spans
  int concurrency = 1;  // ranks of the machine that ran it at the same time; >= group on one node
  double seconds = 0;   // median, > 0; collectives and p2p: from the last arrival
  double p10_s = 0;
  double p90_s = 0;
  int samples = 1;

  bool operator==(const ProfilePoint&) const = default;
};

// Fixed time that an op costs in addition to its work.
enum class OverheadKind : std::uint8_t {
  kLaunch,  // on the host, to issue one op
  kGap,     // on a queue, between the end of an op and the start of the next
  kWake,    // on an idle queue, from the last input to the start
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

// Rates for ops and sizes without points, of one rank alone. Rates are > 0, times >= 0.
struct ProfileRates {
  Figure gemm_flop_per_s;  // rate of a large GEMM
  Figure gemm_fill_s;      // added to each GEMM; makes small ones inefficient
  Figure attention_forward_flop_per_s;
  Figure attention_backward_flop_per_s;
  Figure memory_bytes_per_s;  // rate of a large memory-bound op
  Figure kernel_s;            // added to each op on a device queue
  Figure launch_s;
  Figure gap_s;
  Figure wake_s;
  Figure copy_bytes_per_s;  // between host and device, per direction
  Figure host_read_s;
  Figure link_bytes_per_s;  // between devices of a node, per direction
  Figure link_base_s;       // start of a collective or transfer
  Figure link_hop_s;        // each further hop of a ring or tree
  Figure network_bytes_per_s;
  Figure network_base_s;
  Figure network_hop_s;
  Figure overlap_slowdown;  // slowdown of compute while communication overlaps it; >= 1
  // Host rates: one rank's share while all ranks of a node are busy. Files may omit them.
  Figure host_bytes_per_s{25e9};  // host memory, for ops on the cpu queue
  Figure nvme_read_bytes_per_s{1.5e9};
  Figure nvme_write_bytes_per_s{0.75e9};
  Figure nvme_base_s{100e-6};  // added to each read and write
  // Extra time of a collective for each member beyond the first, on its queue and on the host:
  // ranks do not arrive at the same time. Files may omit it.
  Figure member_skew_s{0};
  // Host time to launch a CUDA graph, and per op in it. Defaults are 2.5 us and 1 ns per node,
  // NVIDIA's values for graphs without branches (developer.nvidia.com/blog, "Constant Time Launch
  // for Straight-Line CUDA Graphs", 2024: CUDA 12.6, Ampere and later). Files may omit them.
  Figure graph_launch_s{2.5e-6};
  Figure graph_op_s{1e-9};
  // Rate of a large GEMM in other formats than fp32; 0: unknown. Files may omit them.
  Figure gemm_tf32_flop_per_s;
  Figure gemm_fp16_flop_per_s;
  Figure gemm_bf16_flop_per_s;
  Figure gemm_fp8_flop_per_s;
  Figure gemm_fp4_flop_per_s;

  bool operator==(const ProfileRates&) const = default;
};

// A GEMM that is measured again before a run is compared with a forecast, because machines drift.
struct ReferenceGemm {
  std::int64_t rows = 0;  // 0: not measured
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  double seconds = 0;

  bool operator==(const ReferenceGemm&) const = default;
};

// Error of ops without points, one standard deviation of the logarithm. Measured on published runs
// that no constant was fitted to (docs/validation.md, Intervals).
inline constexpr double kUnfittedError = 0.20;

struct DeviceProfile {
  std::string device;   // "NVIDIA H200", "cpu"
  std::string machine;  // host name and processor
  std::string date;     // date of the measurement, ISO 8601; empty: derived
  std::string assumptions;
  ProfileRates rates;
  // Kernel model of a known architecture, used instead of the rates for compute ops without points.
  std::optional<KernelModel> kernels;
  // Software that runs on the device; its host_op_s is in rates.launch_s.
  SystemOptions system;
  double error = kUnfittedError;  // relative error of ops without points, one standard deviation
  ReferenceGemm reference;
  std::vector<OverheadPoint> overheads;
  std::vector<ProfilePoint> points;
  GemmAlgorithms gemm_algorithms;       // algorithms that runs use for products
  AttentionTimes attention_times;       // times by which runs choose attention kernels
  std::optional<LearnedState> learned;  // `nullopt`: no run was learned from

  bool operator==(const DeviceProfile&) const = default;
};

// Rate of a large GEMM that computes in `format`. If unknown, that of the next longer known format:
// fp4, fp8, bf16 or fp16, tf32, fp32. Attention scales in proportion.
Figure GemmRate(const ProfileRates& rates, NumberFormat format);

// The point for a measurement of `op`; the caller fills in the times.
ProfilePoint PointOf(const Op& op, int group = 1, int nodes = 1, int concurrency = 1);

// Sets the profile's system options, and replaces its launch overheads by the system's host time
// per op.
void LaySystem(const SystemOptions& system, DeviceProfile& profile);

// True if two points have the same key, whatever their times.
bool SameKey(const ProfilePoint& a, const ProfilePoint& b);

// Replaces the point with the same key, or appends `point`. O(points).
void AddPoint(DeviceProfile& profile, const ProfilePoint& point);

// The best rate of a GEMM measured alone on the machine, else the assumed one. MFU uses it if no
// peak is published. FLOP/s.
Figure BestGemmRate(const DeviceProfile& profile);

// Refuses profiles that give no valid cost: rates outside 1e-3 to 1e21 per second, or times outside
// 0 to 1e6 s (points: from 1e-12 s). Also points without sizes, concurrency or samples, points of
// opaque ops, and more than 100,000 points.
Result<void> ValidateProfile(const DeviceProfile& profile);

}  // namespace foretrain
