// Runs every command of docs/claims.md and compares the results with the values there. Slow: it
// forecasts runs of thousands of devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/units.h"
#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// "| `a/step_time_s ÷ b/step_time_s` | 0.90 | 0.87 | reproduced |"
struct Figure {
  std::string expression;
  double published = 0;
  double ours = 0;
  std::string verdict;
};

// The text below one "## " heading.
struct Claim {
  std::string title;
  std::map<std::string, std::string> commands;  // by the name after their "# "
  std::vector<Figure> figures;
  std::string text;
};

std::vector<Claim> ReadClaims(const std::string& markdown) {
  static const std::regex command(R"(^(foretrain .*\S) +# (\w+)$)");
  static const std::regex figure(
      R"(^\| `([^`]+)`[^|]*\| *([-0-9.]+)[^|]*\| *([-0-9.]+)[^|]*\| *([a-z ]*[a-z]) *\|$)");
  std::vector<Claim> claims;
  std::istringstream lines(markdown);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) {
      claims.push_back({.title = line.substr(3), .commands = {}, .figures = {}, .text = {}});
    } else if (claims.empty()) {
      continue;
    } else if (std::regex_match(line, match, command)) {
      claims.back().commands[match[2]] = match[1];
    } else if (std::regex_match(line, match, figure)) {
      claims.back().figures.push_back(
          {match[1], std::stod(match[2]), std::stod(match[3]), match[4]});
    } else {
      claims.back().text += line + '\n';
    }
  }
  return claims;
}

// A term: the number at "NAME/KEY/KEY" in the output of a command, or a literal number.
double ValueOf(const std::string& term, const std::map<std::string, JsonValue>& outputs) {
  char* end = nullptr;
  const double number = std::strtod(term.c_str(), &end);
  if (end != term.c_str() && *end == '\0') return number;
  std::istringstream parts(term);
  std::string part;
  std::getline(parts, part, '/');
  const auto found = outputs.find(part);
  const JsonValue* value = found == outputs.end() ? nullptr : &found->second;
  while (value != nullptr && std::getline(parts, part, '/')) value = value->Find(part);
  EXPECT_NE(value, nullptr) << term << " is not in the output";
  return value == nullptr ? std::nan("") : value->AsNumber();
}

// Evaluates terms between " × ", " ÷ ", " + " and " - " from left to right.
double Evaluate(const std::string& expression, const std::map<std::string, JsonValue>& outputs) {
  static const std::regex op(R"( (×|÷|\+|-) )");
  std::sregex_iterator next(expression.begin(), expression.end(), op);
  std::size_t begin = 0;
  std::string pending = "+";
  double result = 0;
  for (;; ++next) {
    const bool last = next == std::sregex_iterator();
    const auto end = last ? expression.size() : static_cast<std::size_t>(next->position());
    const double value = ValueOf(expression.substr(begin, end - begin), outputs);
    if (pending == "×") result *= value;
    if (pending == "÷") result /= value;
    if (pending == "+") result += value;
    if (pending == "-") result -= value;
    if (last) return result;
    pending = next->str(1);
    begin = end + static_cast<std::size_t>(next->length());
  }
}

void Check(const Figure& figure, const std::map<std::string, JsonValue>& outputs) {
  const double found = Evaluate(figure.expression, outputs);
  EXPECT_NEAR(figure.ours, found, 0.01 * std::fabs(found) + 0.0005)
      << figure.expression << " is " << found << "; the page says " << figure.ours;
  const bool near = std::fabs(found / figure.published - 1) <= 0.1;
  EXPECT_EQ(figure.verdict, near ? "reproduced" : "not reproduced")
      << figure.expression << ": " << found << " against " << figure.published;
}

TEST(Claims, FiguresAreThoseOfTheirCommands) {
  PosixFileSystem files;
  const auto page = ReadFile(files, SourcePath("docs/claims.md"), kMiB);
  ASSERT_TRUE(page.has_value()) << page.error().message;
  const std::vector<Claim> claims = ReadClaims(*page);
  EXPECT_GE(claims.size(), 13U);
  for (const Claim& claim : claims) {
    SCOPED_TRACE(claim.title);
    const TemporaryFolder folder;
    std::map<std::string, JsonValue> outputs;
    for (const auto& [name, command] : claim.commands) {
      const ProgramEnd end =
          RunCommand(folder.path(), "$FORETRAIN" + command.substr(std::string("foretrain").size()));
      EXPECT_LE(end.code, 1) << command << '\n' << end.errors;  // 1: it does not fit
      auto json = ParseJson(end.output, command);
      ASSERT_TRUE(json.has_value()) << json.error().message;
      outputs.emplace(name, std::move(*json));
    }
    for (const Figure& figure : claim.figures) Check(figure, outputs);
    // A claim without a value says why it has none, and a missed one why it is missed.
    const bool missed = std::any_of(claim.figures.begin(), claim.figures.end(),
                                    [](const Figure& f) { return f.verdict != "reproduced"; });
    if (claim.figures.empty()) {
      EXPECT_NE(claim.text.find("Cannot be represented, because"), std::string::npos);
    } else if (missed) {
      EXPECT_NE(claim.text.find("ecause"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace foretrain
