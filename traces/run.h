// Metadata of a stored run, besides its timeline (traces/store.h stores it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/kernels/kernel_table.h"
#include "traces/metrics/metrics.h"
#include "traces/timeline.h"

namespace foretrain {

using RunId = std::int64_t;  // > 0, never reused in one store

enum class RunKind : std::uint8_t { kPredicted, kMeasured, kResimulated, kImported };
inline constexpr int kRunKindCount = 4;

// kInterrupted: the recording process ended without closing the run.
enum class RunStatus : std::uint8_t { kRunning, kFinished, kInterrupted, kFailed };
inline constexpr int kRunStatusCount = 4;

// "predicted", "measured", "resimulated", "imported"; "running", "finished", "interrupted",
// "failed".
std::string_view Name(RunKind kind);
std::string_view Name(RunStatus status);
std::optional<RunKind> ParseRunKind(std::string_view name);

// The specs from which a run was made, as the caller wrote them. Equal texts are stored once.
struct RunSpecs {
  std::string model_json{};
  std::string hardware_json{};
  std::string plan_json{};
  std::uint64_t program_hash = 0;  // 0: no program (imported runs)
  std::string program{};           // its block templates, stored once for each hash
};

// Facts known before the first step.
struct RunSetup {
  RunKind kind = RunKind::kMeasured;
  std::string label{};  // at most 4 KiB; longer ones are cut
  int world = 1;        // ranks, in [1, 2^24]; spans are stored for ranks below 2^15
  RunSpecs specs{};
  std::optional<RunId> forecast{};  // for a measured run, the run that predicted it
  std::string details_json{};       // any JSON worth keeping: command line, host, build
};

// Errors and costs of a recording. Shown next to every metric.
struct RecordingTotals {
  std::int64_t dropped = 0;      // spans that were lost
  std::int64_t invalid = 0;      // spans without a usable time
  std::int64_t overhead_ns = 0;  // time spent on recording itself
  std::int64_t clock_error_ns = 0;

  bool operator==(const RecordingTotals&) const = default;
};

// One point of a series: "loss", "learning_rate", "gradient_norm", "tokens_per_s", ... A second
// point with the same series, rank, step and time replaces the first.
struct Counter {
  std::string name{};
  int rank = -1;           // -1: the whole job
  std::int32_t step = -1;  // -1: no step
  std::int64_t time_ns = 0;
  double value = 0.0;

  bool operator==(const Counter&) const = default;
};

// Host and device clock of one rank, read together: they align device times with the run's.
struct ClockReading {
  int rank = 0;
  std::int64_t host_ns = 0;
  std::int64_t device_ns = 0;
  std::int64_t width_ns = 0;  // bound on the time between the two reads

  bool operator==(const ClockReading&) const = default;
};

// A sentence about the run: a warning, a restart, a loss spike.
struct Note {
  std::int64_t unix_ns = 0;
  std::string text{};

  bool operator==(const Note&) const = default;
};

// A run as lists show it.
struct RunInfo {
  RunId id = 0;
  RunKind kind = RunKind::kMeasured;
  RunStatus status = RunStatus::kRunning;
  std::string label{};
  bool pinned = false;
  int world = 0;
  std::int64_t created_unix_ns = 0;
  std::optional<std::int64_t> finished_unix_ns{};
  std::optional<RunId> forecast{};
  std::optional<std::int32_t> last_step{};  // the newest step with stored data
  std::int64_t spans = 0;
  RecordingTotals totals{};
  std::uint64_t program_hash = 0;
  std::string message{};               // reason of a failure or interruption
  std::vector<MetricValue> metrics{};  // metrics with rank -1 and step -1

  // `nullopt` if it was not stored: a run without a complete step has no step time.
  std::optional<double> Metric(std::string_view name) const;
};

// A run with all or part of its timeline.
struct StoredRun {
  RunInfo info{};
  Timeline timeline{};  // sorted
  RunSpecs specs{};
  std::string details_json{};
  std::vector<MetricValue> metrics{};
  std::vector<Counter> counters{};     // by name, rank, step, time
  std::vector<ClockReading> clocks{};  // by rank, host time
  std::vector<Note> notes{};           // as added
  KernelTable kernels{};               // empty if the device's work was not recorded
};

}  // namespace foretrain
