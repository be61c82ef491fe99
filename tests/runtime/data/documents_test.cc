#include "runtime/data/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/fault_file_system.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

std::vector<std::string> DocumentsIn(FaultFileSystem& files, const std::string& path) {
  std::vector<std::string> all;
  std::int64_t bytes = 0;
  const auto end = ReadDocuments(files, path, [&](const DocumentPart& part) -> Result<void> {
    if (part.first_line > 0) {
      EXPECT_EQ(part.first_line, std::ssize(all) + 1);
    }
    all.insert(all.end(), part.documents.begin(), part.documents.end());
    bytes += part.bytes;
    return {};
  });
  EXPECT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(bytes, std::ssize(files.Get(path)));
  return all;
}

TEST(Documents, AreAWholeTextOrTheLinesOfAFile) {
  FaultFileSystem files;
  files.Put("a.txt", "one\ntwo\n");
  files.Put("a.jsonl", "one\n\ntwo\n");
  files.Put("b.jsonl", "one\ntwo");
  files.Put("c.jsonl", "");
  EXPECT_EQ(DocumentsIn(files, "a.txt"), (std::vector<std::string>{"one\ntwo\n"}));
  EXPECT_EQ(DocumentsIn(files, "a.jsonl"), (std::vector<std::string>{"one", "", "two"}));
  EXPECT_EQ(DocumentsIn(files, "b.jsonl"), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(DocumentsIn(files, "c.jsonl").empty());
}

// 40 MiB are read in three parts; a line of 20 MiB spans two of them.
TEST(Documents, OfAnyLengthAreWholeAcrossParts) {
  FaultFileSystem files;
  std::string text, long_line(20 << 20, 'x');
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  files.Put("a.jsonl", text + long_line + "\n" + std::string(20 << 20, 'y') + "\nend\n");
  const std::vector<std::string> documents = DocumentsIn(files, "a.jsonl");
  ASSERT_EQ(documents.size(), 1003U);
  EXPECT_EQ(documents[999], "line 999");
  EXPECT_EQ(documents[1000], long_line);
  EXPECT_EQ(documents[1002], "end");
}

TEST(Documents, HaveTheirTextInAField) {
  EXPECT_EQ(TextOfLine(R"({"id": 1, "text": "one\n"})", "text", "f, line 1").value(), "one\n");
  const auto refused = [](const char* line) {
    const auto text = TextOfLine(line, "body", "f.jsonl, line 3");
    EXPECT_FALSE(text.has_value()) << line;
    return text.has_value() ? std::string() : text.error().message;
  };
  EXPECT_THAT(refused(R"({"text": "one"})"), HasSubstr("line 3: has no text called \"body\""));
  EXPECT_THAT(refused(R"({"body": 7})"), HasSubstr("has no text called"));
  EXPECT_THAT(refused("[1]"), HasSubstr("has no text called"));
  EXPECT_THAT(refused("{"), HasSubstr("f.jsonl, line 3"));
}

}  // namespace
}  // namespace foretrain
