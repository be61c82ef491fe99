// How trainers write their logs: the table sim/check/logs/trainer_logs.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/check/logs/trainer_log.h"

namespace foretrain {

// A number of a line, after a label.
struct LogValue {
  enum class To : std::uint8_t { kStepSeconds, kTokensPerSecond, kSamplesPerSecond, kPeakBytes };
  To to = To::kStepSeconds;
  std::string after;
  double scale = 1;
  bool human = false;  // may end in K, M, B or T
};

// A kind of line: one that has the text `has`.
struct LogLine {
  std::string has;
  std::string step;              // label of the step's number; empty: the line is about no step
  std::vector<LogValue> values;  // of equal targets the first one that the line has counts
};

struct LogTimerName {
  std::string name;
  LogPart part = LogPart::kData;
  double scale = 1;
};

struct LogFormat {
  std::string name, title;
  std::string shows;                  // a piece of a line, for messages
  std::vector<std::string> dialects;  // of launch files
  std::vector<LogLine> lines;
  std::vector<LogKey> keys;  // `value` is the label before the key's value
  std::vector<LogTimerName> timers;
  bool dotted_keys = false;    // options are listed as "key ....... value"
  bool progress_bars = false;  // steps are shown by tqdm
};

// Parses the table. Errors name file, format and field.
Result<std::vector<LogFormat>> LogFormatsFromJson(std::string_view text, std::string_view file);

// The built-in table, in its order.
Result<std::vector<LogFormat>> BuiltInLogFormats();

}  // namespace foretrain
