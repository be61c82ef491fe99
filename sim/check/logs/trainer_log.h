// The log that a trainer printed, as a series of steps. One table of formats,
// sim/check/logs/trainer_logs.json, says how each trainer writes them. Leaves out how long a step
// is where the log gives a rate alone: StepSecondsOf.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// One line about a step. Of the values, 0 means that the line does not have it.
struct LogStep {
  std::int64_t step = 0;
  int line = 0;  // from 1
  double step_s = 0;
  double tokens_per_s_device = 0;
  double samples_per_s = 0;  // of all ranks
};

// The part of a step that a trainer timed.
enum class LogPart : std::uint8_t { kData, kCompute, kCommunication, kUpdate };
inline constexpr int kLogParts = 4;
std::string_view Name(LogPart part);  // "data", "compute", "communication", "update"

struct LogTimer {
  std::string name;  // "batch-generator"
  LogPart part = LogPart::kData;
  std::vector<double> seconds;  // of a step, one for each line
};

// A launch option that the log repeats.
struct LogKey {
  std::string key, value;
  int line = 0;
};

struct TrainerLog {
  std::string format;  // "megatron"
  std::string title;   // "Megatron-LM"
  std::string file;
  std::vector<std::string> dialects;  // of launch files whose trainers write this format
  std::vector<LogStep> steps;         // in the order of the log
  LogStep summary;                    // of the whole run, warm-up included
  std::vector<LogTimer> timers;
  std::vector<LogKey> keys;
  std::int64_t peak_bytes = 0;  // most memory that a line gives; 0: none does
};

inline constexpr std::int64_t kMaxLogBytes = std::int64_t{256} << 20;
inline constexpr std::size_t kMaxLogSteps = std::size_t{1} << 20;

// Reads a log. Lines that are no part of a format are passed over.
//
// Errors: kInvalidArgument, with file and remedy: no line of a known trainer, or more than
// kMaxLogSteps steps; kCorruptInput: binary data. O(bytes * formats).
Result<TrainerLog> ReadTrainerLog(std::string_view text, std::string_view file);

// Seconds of each step with a time or a rate, in the order of the log; of the summary alone if no
// step has one.
//
//   plan  that ran: its batch and ranks turn a rate into a time
std::vector<double> StepSecondsOf(const TrainerLog& log, const Plan& plan);

}  // namespace foretrain
