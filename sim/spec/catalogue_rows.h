// What the readers of both catalogues share. For the sources of this folder.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/spec/csv.h"

namespace foretrain {

// The names of a table so far: each row's name is lower-case, short and its own.
class UniqueNames {
 public:
  // The row's name. Errors: kInvalidArgument, empty, over 64 bytes, other than a-z 0-9 . _ - or
  // taken by an earlier row.
  Result<std::string> Add(const CsvReader& row);

 private:
  std::set<std::string, std::less<>> taken_;
};

// The words of the cell `aliases`, made small.
std::vector<std::string> Aliases(const CsvReader& row);

// Errors: kCorruptInput, naming the columns of `needed` that `table` lacks.
Result<void> RequireColumns(const CsvTable& table, std::initializer_list<std::string_view> needed);

}  // namespace foretrain
