#include "ui/view_model/runs/run_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <map>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "traces/metrics/statistics.h"

namespace foretrain::ui {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::optional<double> NumberOf(const JsonValue& object, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  const bool number = value != nullptr && (value->kind() == JsonValue::Kind::kNumber ||
                                           value->kind() == JsonValue::Kind::kInteger);
  return number ? std::optional<double>(value->AsNumber()) : std::nullopt;
}

std::optional<std::int64_t> IntegerOf(const JsonValue& object, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  const bool integer = value != nullptr && value->kind() == JsonValue::Kind::kInteger;
  return integer ? std::optional<std::int64_t>(value->AsInteger()) : std::nullopt;
}

std::optional<std::string> TextOf(const JsonValue& object, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  const bool text = value != nullptr && value->kind() == JsonValue::Kind::kString;
  return text ? std::optional<std::string>(value->AsString()) : std::nullopt;
}

std::optional<StepLine> StepOf(const JsonValue& object) {
  const auto step = IntegerOf(object, "step");
  const auto seconds = NumberOf(object, "step_time_s");
  if (!step.has_value() || !seconds.has_value()) return std::nullopt;
  // A loss that is not finite is written as null.
  return StepLine{
      .step = *step,
      .loss = NumberOf(object, "loss").value_or(std::nan("")),
      .seconds = *seconds,
      .tokens_per_s = NumberOf(object, "tokens_per_s").value_or(0.0),
      .gradient_norm = NumberOf(object, "gradient_norm"),
      .predicted_s = NumberOf(object, "predicted_step_time_s").value_or(0.0),
      .predicted_resident_bytes = IntegerOf(object, "predicted_resident_bytes").value_or(0)};
}

// Calls on_line for each line of `rest` + `text`; an unfinished line stays in `rest`.
template <class OnLine>
void ForLines(std::string_view text, std::string& rest, OnLine on_line) {
  for (const char c : text) {
    // Progress bars redraw themselves with a carriage return.
    if (c == '\n' || c == '\r') {
      if (!rest.empty()) on_line(std::exchange(rest, {}));
    } else if (rest.size() < kMaxLineBytes) {
      rest += c;
    }
  }
}

// Explanation of a signal for users. SIGKILL without a cause usually means the kernel ran out of
// memory.
std::string_view SignalText(int signal) {
  static const std::map<int, std::string_view> texts{
      {SIGKILL, "it was killed; where nobody did, the machine had run out of memory"},
      {SIGSEGV, "a fault: it touched memory that it does not have (SIGSEGV)"},
      {SIGBUS, "a fault on its memory (SIGBUS): often a disk or shared memory that is full"},
      {SIGABRT, "a bug in foretrain stopped it (SIGABRT)"},
      {SIGFPE, "a fault in its arithmetic (SIGFPE)"},
      {SIGILL, "an instruction that this processor does not have (SIGILL)"},
      {SIGTERM, "it was stopped at once, before the end of a step"},
      {SIGINT, "it was stopped at once, before the end of a step"}};
  const auto known = texts.find(signal);
  return known == texts.end() ? "a signal ended it" : known->second;
}

// Explanation of an exit code for users.
std::string_view CodeText(int code) {
  static const std::map<int, std::string_view> texts{
      {0, "all steps are done"},
      {1, "the plan does not fit this machine"},
      {2, "its input is not what it takes"},
      {3, "a rank or the store failed"},
      {127, "the program could not be started"},
      {130, "stopped as asked; the steps before are stored"},
      {143, "stopped as asked; the steps before are stored"}};
  const auto known = texts.find(code);
  return known == texts.end() ? "it ended with a code that it does not use" : known->second;
}

// A run stopped by the user ends by signal, or with 128 + signal.
bool WasStopped(const TrainingEnd& end) {
  return end.signal == SIGINT || end.signal == SIGTERM || end.exit_code == 130 ||
         end.exit_code == 143;
}

// The first step warms up and is left out.
std::optional<double> MedianOfLater(const std::vector<StepLine>& steps, double StepLine::*metric) {
  std::vector<double> values;
  for (std::size_t i = 1; i < steps.size(); ++i) values.push_back(steps[i].*metric);
  if (values.empty()) return std::nullopt;
  return StatisticsOf(values).median;
}

}  // namespace

// A state machine over characters: `quote` is the open quote or 0, `open` whether a word has begun.
// An empty pair of quotes makes an empty word.
Result<std::vector<std::string>> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      open = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      open = true;
    } else if (!IsBlank(c)) {
      word += c;
      open = true;
    } else if (open) {
      words.push_back(std::exchange(word, {}));
      open = false;
    }
  }
  if (quote != 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("options: a {} opens and does not close in \"{}\"", quote, Printable(text)));
  }
  if (open) words.push_back(word);
  return words;
}

// Quotes only words with special characters; a single quote itself is written as '\''.
std::string JoinWords(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) {
      if (c == '\'') {
        text += "'\\''";
      } else {
        text += c;
      }
    }
    text += '\'';
  }
  return text;
}

namespace {

// Adds the options of the text field, and the form of the output that the log parses.
Result<std::vector<std::string>> WithOptions(const RunForm& form, std::vector<std::string> words) {
  FT_ASSIGN(const std::vector<std::string> options, SplitWords(form.options));
  words.insert(words.end(), options.begin(), options.end());
  if (std::find(words.begin(), words.end(), "--json") == words.end()) words.push_back("--json");
  return words;
}

// The checkpoint has the options of its run: those of the form would count in their place.
Result<std::vector<std::string>> ArgumentsToResume(const RunForm& form) {
  std::vector<std::string> words{"train", "--resume=" + form.resume};
  for (const auto& [option, value] :
       {std::pair{"--steps", &form.steps}, std::pair{"--store", &form.store}}) {
    if (!value->empty()) words.insert(words.end(), {option, *value});
  }
  if (!form.save.empty()) words.push_back("--save=" + form.save);
  return WithOptions(form, std::move(words));
}

}  // namespace

// Options from the text field come last. Progress is always requested as JSON, which the log
// parses.
Result<std::vector<std::string>> ArgumentsOf(const RunForm& form) {
  if (!form.resume.empty()) return ArgumentsToResume(form);
  if (form.data.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "data: give a text or a token shard to train on");
  }
  std::vector<std::string> words{"train"};
  for (const auto& [option, value] :
       {std::pair{"--model", &form.model}, std::pair{"--data", &form.data},
        std::pair{"--steps", &form.steps}, std::pair{"--ranks", &form.ranks},
        std::pair{"--device", &form.device}, std::pair{"--store", &form.store}}) {
    if (!value->empty()) words.insert(words.end(), {option, *value});
  }
  if (!form.save.empty()) words.push_back("--save=" + form.save);
  return WithOptions(form, std::move(words));
}

// dp is written even if it has its default, because its default depends on the number of ranks.
std::string OptionsOf(const Plan& plan) {
  std::vector<std::string> words;
  for (const PlanField& field : PlanFields()) {
    if (HasDefault(field, plan) && field.name != "dp") continue;
    words.emplace_back(FirstOption(field));
    if (field.type != PlanFieldType::kFlag) words.push_back(TextOf(field, plan));
  }
  return JoinWords(words);
}

void TrainingLog::Keep(const std::string& line) {
  lines_.push_back(Printable(line, kMaxLineBytes));
  if (lines_.size() > kMaxLines) lines_.pop_front();
}

// Each line is either JSON that the program printed or text. JSON is told apart by its fields: a
// step, the stored run, a checkpoint, or an error.
void TrainingLog::TakeOutput(const std::string& line) {
  const auto json = line.starts_with("{") ? ParseJson(line, "train")
                                          : Result<JsonValue>(Fail(ErrorCode::kCorruptInput, ""));
  if (!json.has_value() || json->kind() != JsonValue::Kind::kObject) return Keep(line);
  if (const auto step = StepOf(*json)) {
    steps_.push_back(*step);
    return;
  }
  if (const auto run = IntegerOf(*json, "run")) {
    run_ = run;
    forecast_ = IntegerOf(*json, "forecast");
    return;
  }
  if (const auto saved = TextOf(*json, "checkpoint")) {
    const auto why = TextOf(*json, "checkpoint_error");
    Keep(saved->empty() ? "no checkpoint: " + why.value_or("") : "saved " + *saved);
    return;
  }
  if (const auto error = TextOf(*json, "error")) {
    error_ = Printable(*error, kMaxLineBytes);
    return;
  }
  Keep(line);
}

void TrainingLog::AddOutput(std::string_view text) {
  ForLines(text, output_, [this](const std::string& line) { TakeOutput(line); });
}

void TrainingLog::AddErrors(std::string_view text) {
  ForLines(text, errors_, [this](const std::string& line) { Keep(line); });
}

void TrainingLog::Close() {
  AddOutput("\n");
  AddErrors("\n");
}

std::string_view Name(RunPhase phase) {
  constexpr std::array<std::string_view, 7> kNames{
      "not started", "starting", "training", "stopping", "done", "stopped", "failed"};
  return kNames[static_cast<std::size_t>(phase)];
}

// The program's own error is most specific, then the signal, then the exit code, then its last
// line.
std::string ReasonOf(const TrainingLog& log, const TrainingEnd& end) {
  if (!log.error().empty()) return log.error();
  if (end.signal != 0) return fmt::format("{} (signal {})", SignalText(end.signal), end.signal);
  const std::string_view text = CodeText(end.exit_code);
  if (end.exit_code == 0 || WasStopped(end)) return std::string(text);
  return log.lines().empty() ? fmt::format("{} (exit code {})", text, end.exit_code)
                             : log.lines().back();
}

double RunModel::Progress() const {
  if (phase == RunPhase::kDone) return 1.0;
  if (wanted_steps <= 0) return 0.0;
  return std::min(1.0, static_cast<double>(log.steps().size()) / static_cast<double>(wanted_steps));
}

std::optional<double> RunModel::MedianStepS() const {
  return MedianOfLater(log.steps(), &StepLine::seconds);
}

std::optional<double> RunModel::TokensPerS() const {
  return MedianOfLater(log.steps(), &StepLine::tokens_per_s);
}

// Both step times are of the same tokens.
std::optional<double> RunModel::PredictedTokensPerS() const {
  if (log.steps().empty()) return std::nullopt;
  const StepLine& last = log.steps().back();
  if (last.predicted_s <= 0 || last.seconds <= 0 || last.tokens_per_s <= 0) return std::nullopt;
  return last.tokens_per_s * last.seconds / last.predicted_s;
}

std::optional<double> RunModel::PredictedResidentBytes() const {
  if (log.steps().empty() || log.steps().back().predicted_resident_bytes <= 0) return std::nullopt;
  return static_cast<double>(log.steps().back().predicted_resident_bytes);
}

std::string AgainstForecast(double value, double forecast) {
  const double share = value / forecast - 1;
  if (std::abs(share) < 5e-4) return "as forecast";
  return FormatPercent(std::abs(share)) + (share < 0 ? " under forecast" : " over forecast");
}

std::optional<double> RunModel::SecondsLeft() const {
  const auto step_s = MedianStepS();
  const std::int64_t left = wanted_steps - static_cast<std::int64_t>(log.steps().size());
  if (!step_s.has_value() || left <= 0 || !IsGoing()) return std::nullopt;
  return *step_s * static_cast<double>(left);
}

void Start(const RunForm& form, RunModel& model) {
  model = {};
  model.phase = RunPhase::kStarting;
  const auto steps = ParseInt("steps", form.steps, 1, std::int64_t{1} << 40);
  if (steps.has_value()) model.wanted_steps = *steps;
}

void FailToStart(const Error& error, RunModel& model) {
  model = {};
  model.phase = RunPhase::kFailed;
  model.reason = error.message;
}

// Readings of memory are halved once there are too many, so that a long run keeps a coarse curve in
// bounded memory.
void Take(const TrainingNews& news, RunModel& model) {
  model.log.AddOutput(news.output);
  model.log.AddErrors(news.errors);
  if (news.resident_bytes.has_value()) {
    std::vector<std::int64_t>& readings = model.resident_bytes;
    readings.push_back(*news.resident_bytes);
    model.peak_resident_bytes = std::max(model.peak_resident_bytes, *news.resident_bytes);
    if (readings.size() > kMaxReadings) {
      for (std::size_t i = 0; 2 * i < readings.size(); ++i) readings[i] = readings[2 * i];
      readings.resize((readings.size() + 1) / 2);
    }
  }
  if (model.phase == RunPhase::kStarting && !model.log.steps().empty()) {
    model.phase = RunPhase::kTraining;
  }
  if (!news.end.has_value()) return;
  model.log.Close();
  model.reason = ReasonOf(model.log, *news.end);
  const bool done = news.end->signal == 0 && news.end->exit_code == 0;
  model.phase = done                    ? RunPhase::kDone
                : WasStopped(*news.end) ? RunPhase::kStopped
                                        : RunPhase::kFailed;
}

// The x scale is fixed by the expected number of values, so that a growing curve does not shift.
std::vector<CurveColumn> FoldCurve(std::span<const double> values, std::size_t expected,
                                   int columns) {
  std::vector<CurveColumn> folded;
  const auto last =
      static_cast<double>(std::max<std::size_t>(2, std::max(expected, values.size())) - 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const int column =
        static_cast<int>(std::lround(static_cast<double>(i) / last * std::max(0, columns - 1)));
    if (folded.empty() || folded.back().column != column) {
      folded.push_back({column, values[i], values[i], values[i], values[i]});
    }
    CurveColumn& at = folded.back();
    at.low = std::min(at.low, values[i]);
    at.high = std::max(at.high, values[i]);
    at.last = values[i];
  }
  return folded;
}

}  // namespace foretrain::ui
