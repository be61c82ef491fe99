#include "tests/app/commands/small_run.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace foretrain {
namespace {

// First column of the first row of a query, as text.
std::string Query(const TemporaryFolder& folder, const std::string& query) {
  sqlite3* database = nullptr;
  sqlite3_stmt* statement = nullptr;
  std::string value;
  const std::string path = folder.path() + "/foretrain.db";
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK &&
      sqlite3_prepare_v2(database, query.c_str(), -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  } else {
    ADD_FAILURE() << query << ": " << sqlite3_errmsg(database);
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return value;
}

}  // namespace

std::string SmallTraining(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; text.size() < 5000; ++i)
    text += "line " + std::to_string(i % 97) + " of the text\n";
  folder.Write("text.txt", text);
  return "train --model gpt-10m --layers 1 --hidden 64 --heads 4 --sequence 16 --global-batch 4 "
         "--ranks 2 --dp 2 --data text.txt ";
}

std::vector<double> LossesOf(const std::string& output) {
  std::vector<double> losses;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("step")) losses.push_back(json.at("loss"));
  }
  return losses;
}

nlohmann::json LastLine(const std::string& output) {
  std::istringstream lines(output);
  std::string line, last;
  while (std::getline(lines, line)) {
    if (!line.empty()) last = line;
  }
  return nlohmann::json::parse(last, nullptr, false);
}

nlohmann::json RunsIn(const TemporaryFolder& folder) {
  const ProgramEnd runs = RunForetrain(folder.path(), "runs --json");
  EXPECT_EQ(runs.code, 0) << runs.errors;
  return runs.code == 0 ? LastLine(runs.output).at("runs") : nlohmann::json::array();
}

std::string IntegrityOf(const TemporaryFolder& folder) {
  return Query(folder, "PRAGMA integrity_check");
}

std::int64_t ValueIn(const TemporaryFolder& folder, const std::string& query) {
  const std::string value = Query(folder, query);
  return value.empty() ? -1 : std::stoll(value);
}

}  // namespace foretrain
