// The one table of a plan's fields: names in files and on the command line, ranges and help. A new
// field of Plan needs one row here; files, options, checks and `--help` follow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/plan/plan.h"

namespace foretrain {

enum class PlanFieldType : std::uint8_t {
  kInteger,
  kSize,      // bytes: "25MB" on the command line
  kNumber,    // a double, in PlanField::number
  kFlag,      // 0 or 1
  kChoice,    // an index into `choices`
  kNames,     // a set of `choices`: bit i stands for choice i
  kIntegers,  // in PlanField::list
  kSlots      // a schedule, in PlanField::slots
};

struct PlanField {
  std::string_view name;        // "zero_stage", in JSON
  std::string_view options;     // "--zero", several separated by commas
  std::string_view value_name;  // "N" in --help
  std::string_view help;
  PlanFieldType type = PlanFieldType::kInteger;
  std::int64_t low = 0;  // both bounds are included; for kIntegers they hold per element
  std::int64_t high = 0;
  std::span<const std::string_view> choices = {};
  std::int64_t (*get)(const Plan&) = nullptr;  // for all types but kNumber, kIntegers and kSlots
  void (*set)(Plan&, std::int64_t) = nullptr;
  double Plan::*number = nullptr;  // kNumber: from 0 to `max`
  double max = 0;
  std::vector<int> Plan::*list = nullptr;
  SlotOrder Plan::*slots = nullptr;
  std::span<const std::string_view> second_names = {};  // kNames: other names of the choices, or
                                                        // empty; read but never written
  bool core = false;                                    // written to files even with its default
  std::int64_t when_true = -1;  // kChoice: meaning of `true` in a file; `false` is the first
                                // choice; -1: neither is allowed
};

// All fields, in display order.
std::span<const PlanField> PlanFields();

// The field called `name` in files, or NULL.
const PlanField* FindPlanField(std::string_view name);

// The same for a name that must exist (FT_CHECK).
const PlanField& PlanFieldOf(std::string_view name);

// True if the field has the value of Plan{}.
bool HasDefault(const PlanField& field, const Plan& plan);

// The option's first name: "--zero".
std::string_view FirstOption(const PlanField& field);

// A value as written on the command line: "4", "zb-h1", "on", "1.5", "3,2,3", "norm,mlp", and the
// name of a schedule's file. The second form takes a value of a field that has `get`.
std::string TextOf(const PlanField& field, const Plan& plan);
std::string TextOf(const PlanField& field, std::int64_t value);

// The choices in the set `value` of a field of type kNames, in the field's order.
std::vector<std::string_view> NamesIn(const PlanField& field, std::int64_t value);

// The bit of the choice of a kNames field that `name` stands for, by its first or second name; 0 if
// there is none. `name` is in lower case.
std::int64_t BitOfName(const PlanField& field, std::string_view name);

// Copies the field from `from` to `to`.
void CopyField(const PlanField& field, const Plan& from, Plan& to);

}  // namespace foretrain
