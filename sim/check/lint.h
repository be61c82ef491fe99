// Findings about a launch file before it runs. Leaves out what a log shows: run_causes.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/check/plan_causes.h"
#include "sim/config/launch/read_launch.h"

namespace foretrain {

// kError: the launch fails. kWarning: it runs, and is slow or not what the file seems to say.
// kNote: the forecast leaves it out.
enum class Severity : std::uint8_t { kError, kWarning, kNote };
std::string_view Name(Severity severity);  // "error", "warning", "note"

struct Finding {
  Severity severity = Severity::kNote;
  std::string kind;       // "plan", "memory", "placement", "speed", "key"
  std::string key, file;  // of the launch file; empty if several keys give it
  int line = 0;
  std::string text;
  std::vector<std::string> helps;
};

// A plan that cannot exist: `error` of compiling it, with the key of the field that it names.
Finding FindingOf(const Error& error, const LaunchAccount& account);

// Keys that count and are not modelled, and standards of the trainer that few want.
std::vector<Finding> LintKeys(const LaunchAccount& account);

struct LintMemory {
  std::int64_t device_bytes = 0;  // of a device
  std::int64_t limit_bytes = 0;   // less the margin
  std::int64_t host_bytes = 0;    // of a node; 0: not known
};

// Memory, placement and speed of a valid plan.
//
//   plans  changes that help; their gains are warnings
std::vector<Finding> LintPlan(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                              const LaunchDialect& launch, const LaunchAccount& account,
                              const PlanCauses& plans, const LintMemory& memory, int threads);

// True if a finding is an error.
bool HasError(const std::vector<Finding>& findings);

}  // namespace foretrain
