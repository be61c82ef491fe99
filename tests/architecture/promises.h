// The rows of docs/reliability.md and the tests in tests/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace foretrain {

struct PromiseRow {
  int number = 0;
  std::vector<std::string> tests;  // "Subject.Sentence", "Subject.*", "NAME_fuzz", "tools/NAME"
  std::string state;
};

// Rows of the page's tables: | R01 | promise | tests | figure | state |.
std::vector<PromiseRow> PromiseRows();

// By "Subject.Sentence" of each test in tests/ and "Subject.*" of each subject: the executables
// that have it, by the rules of tests/README.md. Fuzz targets are not among them.
std::map<std::string, std::set<std::string>> TestBinaries();

// All names that a row may have: tests, subjects, "NAME_fuzz" and "tools/NAME".
std::set<std::string> TestNames();

}  // namespace foretrain
