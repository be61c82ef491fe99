#include "sim/config/plan/plan_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Matches names case-insensitively; a message shows at most 20 choices.
Result<std::vector<std::int64_t>> ParseChoices(const std::string& option, const std::string& text,
                                               std::span<const std::string_view> choices) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : Split(text, ',')) {
    const auto found = std::find(choices.begin(), choices.end(), ToLower(Trim(part)));
    if (found == choices.end()) {
      constexpr std::size_t kMaxShown = 20;
      const auto shown = choices.first(std::min(choices.size(), kMaxShown));
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"{}\" is none of {}{}{}", option, Printable(part),
                              fmt::join(shown, ", "), shown.size() < choices.size() ? ", ..." : "",
                              DidYouMean(part, choices)));
    }
    values.push_back(found - choices.begin());
  }
  return values;
}

// The set of the names in a list, as one value. "default" gives the empty set.
Result<std::int64_t> ParseNames(const PlanField& field, const std::string& text) {
  std::int64_t set = 0;
  if (ToLower(Trim(text)) == "default") return set;
  for (const std::string_view part : Split(text, ',')) {
    const std::int64_t bit = BitOfName(field, ToLower(Trim(part)));
    if (bit == 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"{}\" is none of {}{}", FirstOption(field), Printable(part),
                              fmt::join(field.choices, ", "), DidYouMean(part, field.choices)));
    }
    set |= bit;
  }
  return set;
}

bool HasSuffix(const std::string& text) {
  const std::string_view trimmed = Trim(text);
  return !trimmed.empty() &&
         std::string_view("kKmM").find(trimmed.back()) != std::string_view::npos;
}

// Samples of a batch that is given in tokens.
Result<std::int64_t> SamplesOf(const std::string& option, const std::string& text,
                               std::int64_t sequence) {
  FT_ASSIGN(const std::int64_t tokens, ParseTokenCount(option, text));
  if (sequence > 0 && tokens >= sequence && tokens % sequence == 0) return tokens / sequence;
  const std::int64_t samples = sequence > 0 ? std::max<std::int64_t>(1, tokens / sequence) : 0;
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: \"{}\" is {} tokens, no whole number of samples of {}; k and M count "
                  "tokens: give {} samples, or a multiple of the sequence",
                  option, Printable(text), tokens, sequence, samples));
}

}  // namespace

Result<std::int64_t> ParseTokenCount(const std::string& option, const std::string& text) {
  std::string_view number = Trim(text);
  double factor = 1;
  if (HasSuffix(text)) {
    factor = ToLower(number.substr(number.size() - 1)) == "k" ? 1024 : 1024 * 1024;
    number.remove_suffix(1);
  }
  const auto value = ParseNumber(option, Trim(number), 0, static_cast<double>(kMaxModelCount));
  const double tokens = value ? *value * factor : -1;
  if (tokens < 0 || tokens > static_cast<double>(kMaxModelCount) || tokens != std::floor(tokens)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" is no number of tokens up to {}; write e.g. 8192 or 8k",
                            option, Printable(text), kMaxModelCount));
  }
  return static_cast<std::int64_t>(tokens);
}

// A range doubles from its first value, so 64 values cover all of int64.
Result<std::vector<std::int64_t>> ParseIntegerList(const std::string& option,
                                                   const std::string& text,
                                                   const std::vector<std::int64_t>& automatic) {
  constexpr std::int64_t kMax = std::int64_t{1} << 31;
  if (text == "auto") return automatic;
  std::vector<std::int64_t> list;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    FT_ASSIGN(const std::int64_t first, ParseInt(option, text.substr(0, dots), 1, kMax));
    FT_ASSIGN(const std::int64_t last, ParseInt(option, text.substr(dots + 2), first, kMax));
    for (std::int64_t value = first; value <= last && list.size() < 64; value *= 2) {
      list.push_back(value);
    }
    return list;
  }
  for (const std::string_view part : Split(text, ',')) {
    FT_ASSIGN(const std::int64_t value, ParseInt(option, Trim(part), 0, kMax));
    list.push_back(value);
  }
  return list;
}

// Every type but real numbers is parsed to integers, so that a search can enumerate all of them
// alike.
Result<std::vector<std::int64_t>> ParsePlanValues(const PlanField& field, const std::string& text) {
  switch (field.type) {
    case PlanFieldType::kChoice:
      return ParseChoices(std::string(FirstOption(field)), text, field.choices);
    case PlanFieldType::kFlag: {
      constexpr std::array<std::string_view, 2> kSwitch = {"off", "on"};
      return ParseChoices(std::string(FirstOption(field)), text, kSwitch);
    }
    case PlanFieldType::kNames: {
      FT_ASSIGN(const std::int64_t set, ParseNames(field, text));
      return std::vector<std::int64_t>{set};
    }
    case PlanFieldType::kSize: {
      FT_ASSIGN(const std::int64_t bytes, ParseBytes(FirstOption(field), text));
      return std::vector<std::int64_t>{bytes};
    }
    default:
      return ParseIntegerList(std::string(FirstOption(field)), text, {});
  }
}

// Shares the parser of lists with the search; a command that runs one plan then refuses several
// values.
Result<void> SetPlanField(const PlanField& field, const std::string& text, Plan& plan) {
  const std::string option(FirstOption(field));
  if (field.number != nullptr) {
    FT_ASSIGN(plan.*field.number, ParseNumber(option, text, 0, field.max));
    return {};
  }
  if (field.slots != nullptr) {
    FT_ASSIGN(plan.*field.slots, SlotOrder::FromCsv(text, ""));
    plan.schedule = ScheduleKind::kCustom;
    return {};
  }
  if (field.name == "sequence") {
    FT_ASSIGN(plan.sequence, ParseTokenCount(option, text));
    return {};
  }
  if (field.name == "global_batch" && HasSuffix(text)) {
    FT_ASSIGN(plan.global_batch, SamplesOf(option, text, plan.sequence));
    return {};
  }
  FT_ASSIGN(const std::vector<std::int64_t> values, ParsePlanValues(field, text));
  if (field.list != nullptr) {
    (plan.*field.list).assign(values.begin(), values.end());
    return {};
  }
  if (values.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": \"" + Printable(text) +
                    "\" has several values; this command takes one (`foretrain plan` takes lists)");
  }
  field.set(plan, values.front());
  return {};
}

}  // namespace foretrain
