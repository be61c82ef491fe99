// What the store knows of a run besides its timeline. Leaves out how it is stored (traces/store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/metrics/metrics.h"
#include "traces/timeline.h"

namespace foretrain {

using RunId = std::int64_t;  // > 0, never used twice in one store

enum class RunKind : std::uint8_t { kPredicted, kMeasured, kResimulated, kImported };
inline constexpr int kRunKindCount = 4;

// kInterrupted: the process that recorded it ended without saying how.
enum class RunStatus : std::uint8_t { kRunning, kFinished, kInterrupted, kFailed };
inline constexpr int kRunStatusCount = 4;

// "predicted", "measured", "resimulated", "imported"; "running", "finished", "interrupted",
// "failed".
std::string_view Name(RunKind kind);
std::string_view Name(RunStatus status);
std::optional<RunKind> ParseRunKind(std::string_view name);
std::optional<RunStatus> ParseRunStatus(std::string_view name);

// The specs a run was made from, each as the caller wrote it. Equal texts are stored once.
struct RunSpecs {
  std::string model_json{};
  std::string hardware_json{};
  std::string plan_json{};
  std::uint64_t program_hash = 0;  // 0: no program (an imported run)
  std::string program{};           // its block templates; stored once per hash
};

// What is known before the first step.
struct RunSetup {
  RunKind kind = RunKind::kMeasured;
  std::string label{};  // up to 4 KiB; longer ones are cut
  int world = 1;        // ranks, in [1, 2^24]; spans are stored for ranks below 2^15
  RunSpecs specs{};
  std::optional<RunId> forecast{};  // of a measured run: the run that predicted it
  std::string details_json{};  // command line, host, build, emulation: whatever is worth keeping
};

// What a recorder found wrong with its own recording. Shown beside every figure.
struct RecordingTotals {
  std::int64_t dropped = 0;      // spans that were lost
  std::int64_t invalid = 0;      // spans without a usable time
  std::int64_t overhead_ns = 0;  // time the recording itself took
  std::int64_t clock_error_ns = 0;

  bool operator==(const RecordingTotals&) const = default;
};

// One point of a series: "loss", "learning_rate", "gradient_norm", "tokens_per_s", ... A second
// point of the same series, rank, step and time replaces the first.
struct Counter {
  std::string name{};
  int rank = -1;           // -1: of the whole job
  std::int32_t step = -1;  // -1: of no step
  std::int64_t time_ns = 0;
  double value = 0.0;

  bool operator==(const Counter&) const = default;
};

// The clocks of one rank, read at one moment: how a device's times were brought to the run's.
struct ClockReading {
  int rank = 0;
  std::int64_t host_ns = 0;
  std::int64_t device_ns = 0;
  std::int64_t width_ns = 0;  // the two were read within this time

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
  std::optional<std::int32_t> last_step{};  // the newest step of which anything is stored
  std::int64_t spans = 0;
  RecordingTotals totals{};
  std::uint64_t program_hash = 0;
  std::string message{};               // why it failed or was interrupted
  std::vector<MetricValue> figures{};  // its metrics with rank -1 and step -1
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
};

}  // namespace foretrain
