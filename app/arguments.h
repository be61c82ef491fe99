// The options of one command: names, help and where their values go. The one place that knows the
// library that reads the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
  // "on" when it is given, or what stands behind its "=".
  void Switch(const std::string& names, std::string& value, const std::string& help);
  void Option(const std::string& names, std::string& value, const std::string& value_name,
              const std::string& help);
  void Option(const std::string& names, std::int64_t& value, const std::string& value_name,
              const std::string& help);
  void Option(const std::string& names, double& value, const std::string& value_name,
              const std::string& help);
  // An argument without a name; it may be left out unless `required`.
  void Positional(const std::string& name, std::string& value, const std::string& help,
                  bool required = false);
  // All arguments without a name that are left.
  void Positionals(const std::string& name, std::vector<std::string>& values,
                   const std::string& help);
  // Options declared from here on stand under this title in --help.
  void Section(const std::string& title) { section_ = title; }
  // Text after the options in --help: examples.
  void Footer(const std::string& text);

 private:
  CLI::App& app_;
  std::string section_ = "Options";
};

}  // namespace foretrain
