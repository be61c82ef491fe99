#include "base/io/sha256.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string HexHmac(const std::string& key, const std::string& text) {
  return Hex(HmacSha256(key).Add(text).Finish());
}

// The examples of FIPS 180-4 (NIST, "SHA256.pdf" of the examples with intermediate values), and the
// million letters of its predecessor FIPS 180-2, appendix B.3.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(Hex(Sha256().Add("abc").Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(Sha256().Add("").Finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256().Add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").Finish()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hex(Sha256().Add(std::string(1'000'000, 'a')).Finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IsTheSameWithAndWithoutTheInstructionsOfTheCpu) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Sha256().Add(text).Finish(), Sha256(/*portable=*/true).Add(text).Finish()) << i;
    text += static_cast<char>(i * i >> 3);
  }
  EXPECT_EQ(Hex(Sha256(/*portable=*/true).Add("abc").Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string whole = Sha256().Add(text.substr(0, size)).Finish();
    for (const std::size_t cut : {size / 3, size / 2, size}) {
      EXPECT_EQ(Sha256().Add(text.substr(0, cut)).Add(text.substr(cut, size - cut)).Finish(), whole)
          << size << " " << cut;
    }
  }
}

// RFC 4231, test cases 1 to 4, 6 and 7.
TEST(HmacSha256, GivesTheCodesOfRfc4231) {
  EXPECT_EQ(HexHmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HexHmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HexHmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string key;
  for (char byte = 1; byte <= 25; ++byte) key += byte;
  EXPECT_EQ(HexHmac(key, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  const std::string longer(131, '\xaa');
  EXPECT_EQ(HexHmac(longer, "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(HexHmac(longer,
                    "This is a test using a larger than block-size key and a larger than "
                    "block-size data. The key needs to be hashed before being used by the HMAC "
                    "algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(ConstantTime, ComparesAllBytes) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("bbc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "ab"));
}

}  // namespace
}  // namespace foretrain
