#include "sim/check/logs/log_formats.h"

#include <array>

#include "base/embedded.h"
#include "base/json/json.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::string_view kTable = "sim/check/logs/trainer_logs.json";
constexpr std::array<std::string_view, 4> kTargets = {"step_s", "tokens_per_s_device",
                                                      "samples_per_s", "peak_bytes"};
constexpr std::array<std::string_view, kLogParts> kParts = {"data", "compute", "communication",
                                                            "update"};

double ReadScale(JsonFields& fields) { return fields.NumberOr("scale", 1, 1e-9, 1e12); }

Result<LogLine> ReadLine(JsonFields& fields) {
  LogLine line;
  line.has = fields.String("has");
  line.step = fields.StringOr("step", "");
  for (JsonFields& one : fields.Objects("values")) {
    LogValue value;
    value.to = static_cast<LogValue::To>(one.Choice("to", kTargets));
    value.after = one.String("after");
    value.scale = ReadScale(one);
    value.human = one.BoolOr("human", false);
    FT_TRY(one.Finish());
    line.values.push_back(std::move(value));
  }
  FT_TRY(fields.Finish());
  return line;
}

Result<LogFormat> ReadFormat(JsonFields& fields) {
  LogFormat format;
  format.name = fields.String("name");
  format.title = fields.String("title");
  format.shows = fields.String("shows");
  format.dialects = fields.Strings("dialects");
  format.dotted_keys = fields.BoolOr("dotted_keys", false);
  format.progress_bars = fields.BoolOr("progress_bars", false);
  fields.String("source");
  for (JsonFields& one : fields.Objects("lines")) {
    FT_ASSIGN(format.lines.emplace_back(), ReadLine(one));
  }
  for (JsonFields& one : fields.ObjectsOr("keys")) {
    format.keys.push_back({one.String("key"), one.String("after"), 0});
    FT_TRY(one.Finish());
  }
  for (JsonFields& one : fields.ObjectsOr("timers")) {
    LogTimerName timer;
    timer.name = one.String("name");
    timer.part = static_cast<LogPart>(one.Choice("part", kParts));
    timer.scale = ReadScale(one);
    format.timers.push_back(std::move(timer));
    FT_TRY(one.Finish());
  }
  FT_TRY(fields.Finish());
  return format;
}

}  // namespace

std::string_view Name(LogPart part) { return kParts[static_cast<std::size_t>(part)]; }

Result<std::vector<LogFormat>> LogFormatsFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  std::vector<LogFormat> formats;
  for (JsonFields& one : fields.Objects("formats")) {
    FT_ASSIGN(formats.emplace_back(), ReadFormat(one));
  }
  FT_TRY(fields.Finish());
  return formats;
}

Result<std::vector<LogFormat>> BuiltInLogFormats() {
  const EmbeddedFile* const table = FindEmbedded(sim_data::Files(), kTable);
  FT_CHECK(table != nullptr);
  return LogFormatsFromJson(table->text, table->path);
}

}  // namespace foretrain
