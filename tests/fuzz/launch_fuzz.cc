// A launch file of another trainer: the first line is "TRAINER FILENAME", the rest the file. Its
// keys are all accounted for once, and if it is accepted, its plan is one that options can say.
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/text.h"
#include "sim/config/launch/read_launch.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_values.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace foretrain;

ReadLaunchOptions Options(bool strict) {
  ReadLaunchOptions options;
  options.devices = []() -> Result<std::int64_t> { return 8; };
  options.layers = [](const std::string&) -> Result<std::int64_t> { return 16; };
  options.strict = strict;
  return options;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Dialect> dialects = BuiltInDialects().value();
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = all.find('\n'), space = all.substr(0, end).find(' ');
  if (end == std::string_view::npos || space == std::string_view::npos) return 0;
  const auto dialect = FindDialect(dialects, all.substr(0, space), "fuzz");
  if (!dialect) return 0;
  const std::string file(all.substr(space + 1, end - space - 1));
  auto text = ReadLaunchText(all.substr(end + 1), SyntaxFor(*dialect, file), "fuzz");
  if (!text) {
    FT_CHECK(text.error().message.find("fuzz") != std::string::npos);
    return 0;
  }
  FT_CHECK(text->entries.size() <= kMaxLaunchEntries);
  const LaunchPart part{*dialect, *std::move(text), "fuzz"};
  FilesNamedIn(part.dialect, part.text, part.file);
  const auto launch = ReadLaunch(std::span(&part, 1), dialects, Options(false));
  const auto strict = ReadLaunch(std::span(&part, 1), dialects, Options(true));
  if (!launch) {
    FT_CHECK(!launch.error().message.empty() && !strict.has_value());
    return 0;
  }
  FT_CHECK(strict.has_value() == launch->account.not_modelled.empty());
  FT_CHECK(launch->ranks >= 0);
  Plan plan;
  for (const auto& [field, value] : launch->options) {
    FT_CHECK(SetPlanField(PlanFieldOf(field), value, plan).has_value());
  }
  return 0;
}
