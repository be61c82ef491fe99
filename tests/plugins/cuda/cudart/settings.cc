#include "tests/plugins/cuda/cudart/settings.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace foretrain::cudart {
namespace {

[[noreturn]] void Refuse(const std::string& item) {
  std::fprintf(stderr, "FORETRAIN_FAKE_CUDA: no setting is \"%s\"\n", item.c_str());
  std::abort();
}

void Set(Settings& settings, const std::string& item) {
  const std::size_t equals = item.find('=');
  const std::string key = item.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
  const std::size_t colon = value.rfind(':');
  const auto number = [&](const std::string& text) {
    return std::strtoll(text.c_str(), nullptr, 10);
  };
  if (key == "gpus") {
    settings.gpus = static_cast<int>(number(value));
  } else if (key == "capability") {
    settings.capability = static_cast<int>(number(value));
  } else if (key == "multiprocessors") {
    settings.multiprocessors = static_cast<int>(number(value));
  } else if (key == "memory") {
    settings.memory = static_cast<std::size_t>(number(value)) << 20;
  } else if (key == "order" && (value == "forward" || value == "reverse" || value == "random")) {
    settings.order = value == "forward"   ? simt::Order::kForward
                     : value == "reverse" ? simt::Order::kReverse
                                          : simt::Order::kRandom;
  } else if (key == "races") {
    settings.races = value != "0";
  } else if (key == "libraries") {
    settings.libraries = value != "0";
  } else if (key == "nccl_threads") {
    settings.nccl_threads = value != "0";
  } else if (key == "late") {
    settings.late = static_cast<std::uint64_t>(number(value));
  } else if (key == "fail" && colon != std::string::npos) {
    settings.fail_function = value.substr(0, colon);
    settings.fail_call = number(value.substr(colon + 1));
  } else if (key == "mutant" && colon != std::string::npos) {
    settings.mutant_entry = value.substr(0, colon);
    settings.mutant_site = static_cast<int>(number(value.substr(colon + 1)));
  } else if (key == "report") {
    settings.report = value;
  } else {
    Refuse(item);
  }
}

Settings Read() {
  Settings settings;
  const char* const text = std::getenv("FORETRAIN_FAKE_CUDA");
  std::istringstream items(text != nullptr ? text : "");
  for (std::string item; std::getline(items, item, ',');) Set(settings, item);
  return settings;
}

}  // namespace

// CUDA programming guide, "Technical Specifications per Compute Capability".
std::size_t Settings::shared_bytes() const {
  const std::size_t kib = capability == 75                       ? 64
                          : capability == 80 || capability == 87 ? 163
                          : capability < 90 || capability >= 120 ? 99
                                                                 : 227;
  return kib * 1024;
}

const Settings& TheSettings() {
  static const auto* const settings = new Settings(Read());  // read until the process ends
  return *settings;
}

}  // namespace foretrain::cudart
