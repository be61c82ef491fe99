// docs/options.md lists the options of a plan as the table of fields has them, and names every
// option of a system. FORETRAIN_UPDATE_GOLDEN=1 writes the list anew.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <string>

#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/system_options.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

constexpr std::string_view kBegin = "<!-- plan fields -->\n";
constexpr std::string_view kEnd = "<!-- end -->\n";
constexpr std::size_t kMaxListed = 12;  // choices; rank_order has 120
constexpr std::int64_t kNoLimit = 1'000'000;

std::string ValuesOf(const PlanField& field) {
  switch (field.type) {
    case PlanFieldType::kFlag:
      return "on, off";
    case PlanFieldType::kChoice:
    case PlanFieldType::kNames:
      return field.choices.size() > kMaxListed ? std::string(field.value_name)
                                               : fmt::format("{}", fmt::join(field.choices, ", "));
    case PlanFieldType::kNumber:
      return field.max < kNoLimit ? fmt::format("0 to {:g}", field.max) : "from 0";
    case PlanFieldType::kSize:
      return "bytes, 25MB, 1GiB";
    case PlanFieldType::kIntegers:
    case PlanFieldType::kSlots:
      return std::string(field.value_name);
    case PlanFieldType::kInteger:
      break;
  }
  return field.high < kNoLimit ? fmt::format("{} to {}", field.low, field.high)
                               : fmt::format("from {}", field.low);
}

std::string DefaultOf(const PlanField& field) {
  const Plan plan;
  if (field.get != nullptr && field.get(plan) < field.low) return "chosen";
  const std::string text = TextOf(field, plan);
  return text.empty() ? "none" : text;
}

std::string TableOfPlanFields() {
  std::string table = "| option | in files | values | default | meaning |\n|---|---|---|---|---|\n";
  for (const PlanField& field : PlanFields()) {
    const std::string options =
        std::regex_replace(std::string(field.options), std::regex(","), "`, `");
    table += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", options, field.name, ValuesOf(field),
                         DefaultOf(field), field.help);
  }
  return table;
}

Result<std::string> Page() {
  PosixFileSystem files;
  return ReadFile(files, SourcePath("docs/options.md"), kMiB);
}

TEST(OptionsPage, ListsTheFieldsOfAPlan) {
  auto page = Page();
  ASSERT_TRUE(page.has_value()) << page.error().message;
  const std::size_t begin = page->find(kBegin);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t table = begin + kBegin.size();
  const std::size_t end = page->find(kEnd, table);
  ASSERT_NE(end, std::string::npos);
  if (std::getenv("FORETRAIN_UPDATE_GOLDEN") != nullptr) {
    PosixFileSystem files;
    page->replace(table, end - table, TableOfPlanFields());
    ASSERT_TRUE(WriteFileAtomically(files, SourcePath("docs/options.md"), *page).has_value());
    return;
  }
  EXPECT_EQ(page->substr(table, end - table), TableOfPlanFields())
      << "renew docs/options.md by running this test with FORETRAIN_UPDATE_GOLDEN=1";
}

TEST(OptionsPage, NamesEveryOptionOfASystem) {
  const auto page = Page();
  ASSERT_TRUE(page.has_value()) << page.error().message;
  JsonWriter json;
  json.BeginObject();
  WriteSystemOptions(SystemOptions{}, json);
  const std::string options = json.EndObject().Take();
  const std::regex name("\"([a-z0-9_]+)\":\\{");
  for (std::sregex_iterator at(options.begin(), options.end(), name), end; at != end; ++at) {
    EXPECT_THAT(*page, testing::HasSubstr("| `" + (*at)[1].str() + "` |"));
  }
}

}  // namespace
}  // namespace foretrain
