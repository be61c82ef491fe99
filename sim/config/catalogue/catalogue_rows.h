// Shared parts of both catalogue readers. For the sources of this folder.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/csv.h"

namespace foretrain {

// Collects the names of a table; each must be lower-case, short and unique.
class UniqueNames {
 public:
  // Adds the row's name and returns it. Errors: kInvalidArgument if it is empty, longer than 64
  // bytes, contains other characters than a-z 0-9 . _ - or repeats an earlier row's.
  Result<std::string> Add(const CsvReader& row);

 private:
  std::set<std::string, std::less<>> taken_;
};

// The words of the cell `aliases`, in lower case.
std::vector<std::string> Aliases(const CsvReader& row);

// Errors: kCorruptInput, naming the columns of `needed` that `table` lacks.
Result<void> RequireColumns(const CsvTable& table, std::initializer_list<std::string_view> needed);

}  // namespace foretrain
