#include "sim/config/catalogue/catalogue_rows.h"

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {

Result<std::string> UniqueNames::Add(const CsvReader& row) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  const std::string_view name = row.Text("name");
  if (name.empty() || name.size() > 64 ||
      name.find_first_not_of(kAllowed) != std::string_view::npos) {
    return Refuse("{}: \"{}\" must be 1 to 64 of the characters a-z 0-9 . _ -", row.Place("name"),
                  Printable(name));
  }
  if (!taken_.emplace(name).second) {
    return Refuse("{}: \"{}\" is the name of an earlier row; give this one another",
                  row.Place("name"), name);
  }
  return std::string(name);
}

std::vector<std::string> Aliases(const CsvReader& row) {
  std::vector<std::string> aliases;
  for (const std::string_view word : Split(row.Text("aliases"), ' ')) {
    if (!word.empty()) aliases.push_back(ToLower(word));
  }
  return aliases;
}

Result<void> RequireColumns(const CsvTable& table, std::initializer_list<std::string_view> needed) {
  std::vector<std::string> missing;
  for (const std::string_view column : needed) {
    if (table.Column(column) < 0) missing.emplace_back(column);
  }
  if (missing.empty()) return {};
  return Fail(ErrorCode::kCorruptInput,
              fmt::format("{}: the header lacks the columns {}", table.file, Join(missing, ", ")));
}

}  // namespace foretrain
