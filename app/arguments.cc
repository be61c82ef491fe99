#include "app/arguments.h"

#include <CLI/CLI.hpp>

namespace foretrain {

void Arguments::Flag(const std::string& names, bool& value, const std::string& help) {
  app_.add_flag(names, value, help)->group(section_);
}

void Arguments::Switch(const std::string& names, std::string& value, const std::string& help) {
  app_.add_flag(names + "{on}", value, help)->group(section_);
}

void Arguments::Option(const std::string& names, std::string& value, const std::string& value_name,
                       const std::string& help) {
  auto* option = app_.add_option(names, value, help)->type_name(value_name)->group(section_);
  if (!value.empty()) option->capture_default_str();
}

void Arguments::Option(const std::string& names, std::int64_t& value, const std::string& value_name,
                       const std::string& help) {
  auto* option = app_.add_option(names, value, help)->type_name(value_name)->group(section_);
  // A zero stands for "not given"; where it means something, the help says what.
  if (value != 0) option->capture_default_str();
}

void Arguments::Option(const std::string& names, double& value, const std::string& value_name,
                       const std::string& help) {
  app_.add_option(names, value, help)
      ->type_name(value_name)
      ->group(section_)
      ->capture_default_str();
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

}  // namespace foretrain
