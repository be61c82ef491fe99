// Reads the fields of one config.json, and records which were used and the first error. families.cc
// gives the fields their meaning. For the sources of this folder.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "sim/config/model/import/hugging_face.h"

namespace foretrain {

// A field may have alternatives, "hidden_size|n_embed": the first that the file has, else the
// first.
class Config {
 public:
  Config(const JsonValue& value, std::string_view file) : fields_(value, file) {}

  bool Has(std::string_view names) { return fields_.Has(Named(names)); }
  // True if the field is present with the value null.
  bool IsNull(std::string_view name);
  const JsonValue* Any(std::string_view name) { return fields_.Any(Use(name)); }
  std::int64_t Count(std::string_view names) {
    return fields_.Integer(Named(names), 1, kMaxModelCount);
  }
  std::int64_t CountOr(std::string_view names, std::int64_t otherwise) {
    return fields_.IntegerOr(Named(names), otherwise, 1, kMaxModelCount);
  }
  std::int64_t IntegerOr(std::string_view name, std::int64_t otherwise) {
    return fields_.IntegerOr(Use(name), otherwise, 0, kMaxModelCount);
  }
  double NumberOr(std::string_view names, double otherwise) {
    return fields_.NumberOr(Named(names), otherwise, 0, 1e18);
  }
  bool BoolOr(std::string_view name, bool otherwise) {
    return fields_.BoolOr(Use(name), otherwise);
  }
  std::string StringOr(std::string_view names, std::string_view otherwise) {
    return fields_.StringOr(Named(names), otherwise);
  }
  std::vector<std::string> StringsOr(std::string_view name) { return fields_.StringsOr(Use(name)); }
  std::optional<JsonFields> ObjectOr(std::string_view name) { return fields_.ObjectOr(Use(name)); }

  // Marks fields as used that repeat others or mean nothing in this family.
  void IgnoreIn(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) Use(name);
  }

  // Records the first feature that ModelSpec cannot express.
  void Unsupported(std::string_view field, std::string_view why);
  void Refuse(std::string_view field, std::string_view why) { fields_.Refuse(field, why); }
  void MustBe(std::string_view field, bool expected, std::string_view why);
  void Note(std::string text) { notes_.push_back(std::move(text)); }
  bool ok() const { return fields_.ok(); }

  // The imported model, or the first error.
  Result<ImportedModel> Finish(const ModelSpec& model);

 private:
  std::string_view Named(std::string_view names);
  std::string_view Use(std::string_view name) {
    used_.emplace_back(name);
    return name;
  }

  JsonFields fields_;
  std::vector<std::string> used_;
  std::vector<std::string> notes_;
  std::optional<Error> unsupported_;
};

}  // namespace foretrain
