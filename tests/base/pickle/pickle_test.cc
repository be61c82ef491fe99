// Python's pickles, operation by operation. Tests of whole files are those of memory snapshots and
// of distributed checkpoints.
#include "base/pickle/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using Kind = PickleTree::Kind;

Result<PickleTree> Objects(const std::string& operations) {
  return ReadPickle("\x80\x04" + operations, "x", {.keeps_objects = true});
}
std::string ErrorOf(const std::string& operations, bool keeps_objects = false) {
  const auto tree = ReadPickle("\x80\x04" + operations, "x", {.keeps_objects = keeps_objects});
  return tree.has_value() ? "" : tree.error().message;
}

// Bytes of one operation each.
TEST(Pickle, RefusesWhatItCannotBe) {
  EXPECT_THAT(ErrorOf("t."), HasSubstr("takes values above a mark that is not there"));
  EXPECT_THAT(ErrorOf("a."), HasSubstr("takes values from an empty stack"));
  EXPECT_THAT(ErrorOf("NNa."), HasSubstr("adds to something that is no list or dict"));
  EXPECT_THAT(ErrorOf("}(Nu."), HasSubstr("has a name without a value"));
  EXPECT_THAT(ErrorOf("Nr\xff\xff\xff\x7f."), HasSubstr("skips numbers of its memo"));
  EXPECT_THAT(ErrorOf("h\x05."), HasSubstr("recalls a value that it did not remember"));
  EXPECT_THAT(ErrorOf("X\xff\xff\xff\xff"), HasSubstr("has a text of 4294967295 bytes"));
  EXPECT_THAT(ErrorOf("\x8a\xff"), HasSubstr("has an integer of 255 bytes"));
  EXPECT_THAT(ErrorOf("NN."), HasSubstr("does not end with one value"));
  EXPECT_THAT(ErrorOf("\x80\x09."), HasSubstr("a pickle of protocol 9; 2 to 5 are read"));
  EXPECT_THAT(ErrorOf("\xff"), HasSubstr("has the unknown operation 255"));
  EXPECT_THAT(ErrorOf("cm\nC\n)R."), HasSubstr("byte 2: operation GLOBAL makes a Python object"));
}

TEST(Pickle, KeepsObjectsAsTheirClassArgumentsAndFields) {
  // torch.Size((2, 3)), and an object with a field.
  const auto size = Objects("ctorch\nSize\nK\x02K\x03\x86\x85R.");
  ASSERT_TRUE(size.has_value()) << size.error().message;
  EXPECT_EQ(size->kind(size->root()), Kind::kObject);
  EXPECT_EQ(size->Name(size->root()), "torch.Size");
  ASSERT_THAT(size->Items(size->root()), SizeIs(1));
  EXPECT_EQ(size->Integer(size->Items(size->Items(size->root())[0])[1]), 3);

  const auto object = Objects(
      "\x8c\x01m\x8c\x01"
      "C\x93)\x81}\x8c\x01"
      "fK\x07sb.");
  ASSERT_TRUE(object.has_value()) << object.error().message;
  EXPECT_EQ(object->Name(object->root()), "m.C");
  EXPECT_EQ(object->Integer(object->Find(object->root(), "f")), 7);

  const auto name = Objects("ctorch\nbfloat16\n.");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->kind(name->root()), Kind::kName);
  EXPECT_EQ(name->Name(name->root()), "torch.bfloat16");

  const auto stored = Objects("\x8c\x01kQ.");
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->Name(stored->root()), PickleTree::kPersistent);
  EXPECT_EQ(stored->Text(stored->Items(stored->root())[0]), "k");

  const auto dict = Objects("ccollections\nOrderedDict\n)R\x8c\x01kK\x05s.");
  ASSERT_TRUE(dict.has_value());
  EXPECT_EQ(dict->Integer(dict->Find(dict->root(), "k")), 5);
  EXPECT_THAT(dict->Members(dict->root()), SizeIs(2));
}

TEST(Pickle, RefusesObjectsThatNobodyCanMake) {
  EXPECT_THAT(ErrorOf("N)R.", true), HasSubstr("calls something that is no class"));
  EXPECT_THAT(ErrorOf("cm\nC\nNR.", true), HasSubstr("calls something that is no class"));
  EXPECT_THAT(ErrorOf("N}b.", true), HasSubstr("sets fields of something that is no object"));
  EXPECT_THAT(ErrorOf("c" + std::string(5000, 'm'), true), HasSubstr("has a name without an end"));
  EXPECT_THAT(ErrorOf("(im\nC\n.", true), HasSubstr("operation INST"));
}

}  // namespace
}  // namespace foretrain
