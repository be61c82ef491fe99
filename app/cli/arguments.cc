#include "app/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Also for one that is too large; commands check the ranges that mean something.
tl::unexpected<Error> NoNumber(const std::string& name, const std::string& text,
                               const std::string& kind) {
  return Fail(ErrorCode::kInvalidArgument,
              name + ": \"" + Printable(text) + "\" is not " + kind + " that can be used");
}

}  // namespace

// An option whose text is read after parsing, so that its error carries foretrain's own wording.
struct Arguments::Text {
  std::string name;
  std::string text;
  ReadText read;
  CLI::Option* option = nullptr;
};

void Arguments::Flag(const std::string& names, bool& value, const std::string& help) {
  app_.add_flag(names, value, help)->group(section_);
}

// A flag with a text value: given bare it means "on", and "auto" remains if it is not given.
void Arguments::Switch(const std::string& names, std::string& value, const std::string& help) {
  app_.add_flag(names + "{on}", value, help)->group(section_);
}

void Arguments::Option(const std::string& names, std::string& value, const std::string& value_name,
                       const std::string& help) {
  auto* option = app_.add_option(names, value, help)->type_name(value_name)->group(section_);
  if (!value.empty()) option->capture_default_str();
}

void Arguments::Option(const std::string& names, std::vector<std::string>& values,
                       const std::string& value_name, const std::string& help) {
  app_.add_option(names, values, help)
      ->type_name(value_name)
      ->group(section_)
      ->allow_extra_args(false);
}

void Arguments::OptionalValue(const std::string& names, std::string& value, const std::string& bare,
                              const std::string& value_name, const std::string& help) {
  Parsed(names, "[" + value_name + "]", help,
         [&value, bare](const std::string&, const std::string& text) -> Result<void> {
           value = text.empty() ? bare : text;
           return {};
         });
  texts_.back()->option->expected(0, 1);
}

void Arguments::Option(const std::string& names, std::int64_t& value, const std::string& value_name,
                       const std::string& help) {
  // A zero stands for "not given"; where it means something, the help says what.
  Parsed(
      names, value_name, help,
      [&value](const std::string& name, const std::string& text) -> Result<void> {
        const auto number = ParseInt(name, text, INT64_MIN, INT64_MAX);
        if (!number.has_value()) return NoNumber(name, text, "a whole number");
        value = *number;
        return {};
      },
      value != 0 ? std::to_string(value) : "");
}

void Arguments::Option(const std::string& names, double& value, const std::string& value_name,
                       const std::string& help) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  Parsed(
      names, value_name, help,
      [&value](const std::string& name, const std::string& text) -> Result<void> {
        const auto number = ParseNumber(name, text, -kLargest, kLargest);
        if (!number.has_value()) return NoNumber(name, text, "a number");
        value = *number;
        return {};
      },
      NumberText(value));
}

// Keeps the text until Read(). `names` may list several spellings; messages use the first.
void Arguments::Parsed(const std::string& names, const std::string& value_name,
                       const std::string& help, ReadText read, const std::string& default_text) {
  auto text =
      std::make_shared<Text>(Text{names.substr(0, names.find(',')), default_text, std::move(read)});
  auto* option = app_.add_option(names, text->text, help)->type_name(value_name)->group(section_);
  if (!default_text.empty()) option->capture_default_str();
  text->option = option;
  texts_.push_back(std::move(text));
}

// Turns a list of words into an option. The error lists all words, because the choice is always
// short.
void Arguments::Choose(const std::string& names, const std::vector<std::string_view>& words,
                       std::string_view now, const std::string& help,
                       const std::function<void(std::size_t)>& set) {
  const auto read = [words, set](const std::string& name, const std::string& text) -> Result<void> {
    const auto at = std::find(words.begin(), words.end(), text);
    if (at != words.end()) {
      set(static_cast<std::size_t>(at - words.begin()));
      return {};
    }
    const std::string start = name + ": \"" + Printable(text) + "\" is ";
    const std::vector<std::string> all(words.begin(), words.end());
    return Fail(ErrorCode::kInvalidArgument, all.size() == 2
                                                 ? start + "neither " + all[0] + " nor " + all[1]
                                                 : start + "none of " + Join(all, ", "));
  };
  Parsed(names, Join(std::vector<std::string>(words.begin(), words.end()), "|"), help, read,
         std::string(now));
}

void Arguments::Bytes(const std::string& names, std::int64_t& value, const std::string& help) {
  Parsed(names, "SIZE", help,
         [&value](const std::string& name, const std::string& text) -> Result<void> {
           FT_ASSIGN(value, ParseBytes(name, text));
           return {};
         });
}

void Arguments::BytesPerSecond(const std::string& names, double& value, const std::string& help) {
  Parsed(names, "RATE", help,
         [&value](const std::string& name, const std::string& text) -> Result<void> {
           FT_ASSIGN(value, ParseBytesPerSecond(name, text));
           return {};
         });
}

// Reads only the options that were given, so that a default is never parsed. The first error ends
// it.
Result<void> Arguments::Read() const {
  for (const auto& text : texts_) {
    if (text->option->count() > 0) FT_TRY(text->read(text->name, text->text));
  }
  return {};
}

void Arguments::Positional(const std::string& name, std::string& value, const std::string& help,
                           bool required) {
  app_.add_option(name, value, help)->required(required)->type_name("");
}

void Arguments::Positionals(const std::string& name, std::vector<std::string>& values,
                            const std::string& help) {
  app_.add_option(name, values, help)->type_name("");
}

void Arguments::Footer(const std::string& text) { app_.footer(text); }

Result<void> ReadOptions(const std::vector<std::string>& texts,
                         const std::function<void(Arguments&)>& declare) {
  CLI::App app;
  Arguments arguments(app);
  declare(arguments);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() <= 1) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  try {
    app.parse(std::vector<std::string>(texts.rbegin(), texts.rend()));  // as the library wants them
  } catch (const CLI::ParseError& error) {
    return Fail(ErrorCode::kInvalidArgument, error.what());
  }
  return arguments.Read();
}

}  // namespace foretrain
