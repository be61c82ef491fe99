// Stores for tests: created, read back, and inspected by plain SQL.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/traces/temp_folder.h"
#include "traces/store.h"

// Ends the test if a Result<void> is an Error.
#define FT_ASSERT_OK(...)                                      \
  do {                                                         \
    const auto ft_ok_ = (__VA_ARGS__);                         \
    ASSERT_TRUE(ft_ok_.has_value()) << ft_ok_.error().message; \
  } while (false)

namespace foretrain {

// Stores `timeline` as a finished run of a new or existing store. Returns its id; on failure 0 and
// a failed test.
RunId StoreTimeline(const std::string& path, const Timeline& timeline, RunSetup setup = {});

// The run of a store, read by a new reader.
Result<StoredRun> LoadFrom(const std::string& path, RunId id, const LoadOptions& options = {});

// Expects equal spans, samples, windows and names.
void ExpectSameTimeline(const Timeline& a, const Timeline& b);
bool SameTimeline(const Timeline& a, const Timeline& b);

// Rows of `sql`, columns separated by "|". Not hardened, so that views work.
std::vector<std::string> Query(const std::string& path, const std::string& sql);

// Runs SQL that changes the file without the store's knowledge.
void Damage(const std::string& path, const std::string& sql);

std::string ReadBytes(const std::string& path);
void WriteBytes(const std::string& path, const std::string& bytes);

}  // namespace foretrain
