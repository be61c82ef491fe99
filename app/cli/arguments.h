// The options of one command: names, help and where their values go. The one place that knows the
// library that reads the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace foretrain {

// Options are named as CLI users write them: "--micro-batch", or several names that mean the same,
// "--sequence,--seq-length". The referenced values hold the defaults and outlive the parse.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  void Flag(const std::string& names, bool& value, const std::string& help);
  // "on" if it is given, or the text after its "=".
  void Switch(const std::string& names, std::string& value, const std::string& help);
  void Option(const std::string& names, std::string& value, const std::string& value_name,
              const std::string& help);
  void Option(const std::string& names, std::int64_t& value, const std::string& value_name,
              const std::string& help);
  void Option(const std::string& names, double& value, const std::string& value_name,
              const std::string& help);
  // An option that may be given several times, with one value each.
  void Option(const std::string& names, std::vector<std::string>& values,
              const std::string& value_name, const std::string& help);
  // An option whose text `read` turns into a value, if the option was given. `read` runs in Read
  // and names the option, its first argument, in its errors.
  using ReadText = std::function<Result<void>(const std::string& name, const std::string& text)>;
  void Parsed(const std::string& names, const std::string& value_name, const std::string& help,
              ReadText read, const std::string& default_text = "");
  // An option that may stand without a value, which then is `bare`.
  void OptionalValue(const std::string& names, std::string& value, const std::string& bare,
                     const std::string& value_name, const std::string& help);
  // One of the named values. `value` holds the default, which --help shows by its name.
  template <typename T>
  using Choices = std::vector<std::pair<std::string_view, T>>;
  template <typename T>
  void Choice(const std::string& names, T& value, const std::type_identity_t<Choices<T>>& choices,
              const std::string& help);
  // A size such as 72GiB, and a rate such as 2GB/s.
  void Bytes(const std::string& names, std::int64_t& value, const std::string& help);
  void BytesPerSecond(const std::string& names, double& value, const std::string& help);
  // Reads the texts of all options above. Called once, after the command line was parsed.
  // Errors: kInvalidArgument, naming the first option that is wrong, in the order of declaration.
  Result<void> Read() const;

  // An argument without a name; it may be left out unless `required`.
  void Positional(const std::string& name, std::string& value, const std::string& help,
                  bool required = false);
  // All arguments without a name that are left.
  void Positionals(const std::string& name, std::vector<std::string>& values,
                   const std::string& help);
  // Options declared from here on appear under this title in --help.
  void Section(const std::string& title) { section_ = title; }
  // Text after the options in --help: examples.
  void Footer(const std::string& text);

 private:
  struct Text;  // of a Parsed option

  void Choose(const std::string& names, const std::vector<std::string_view>& words,
              std::string_view now, const std::string& help,
              const std::function<void(std::size_t)>& set);

  CLI::App& app_;
  std::string section_ = "Options";
  std::vector<std::shared_ptr<Text>> texts_;  // shared with the library's callbacks
};

// Reads `texts` ("--tp", "8") as the options that `declare` declares; of one that is given twice
// the last counts. Errors: kInvalidArgument, naming the option.
Result<void> ReadOptions(const std::vector<std::string>& texts,
                         const std::function<void(Arguments&)>& declare);

template <typename T>
void Arguments::Choice(const std::string& names, T& value,
                       const std::type_identity_t<Choices<T>>& choices, const std::string& help) {
  std::vector<std::string_view> words;
  std::string_view now;
  for (const auto& [word, of] : choices) {
    words.push_back(word);
    if (of == value) now = word;
  }
  Choose(names, words, now, help,
         [&value, choices](std::size_t chosen) { value = choices[chosen].second; });
}

}  // namespace foretrain
