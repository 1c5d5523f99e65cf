/* Expands a macro for each of its further arguments: WEIR_MAP(F, a, b) is F(a) F(b). At most 64. */
/* clang-format off */
#ifndef WEIR_ACLNNOP_MAP_H
#define WEIR_ACLNNOP_MAP_H

#define WEIR_MAP_1(f, a) f(a)
#define WEIR_MAP_2(f, a, ...) f(a) WEIR_MAP_1(f, __VA_ARGS__)
#define WEIR_MAP_3(f, a, ...) f(a) WEIR_MAP_2(f, __VA_ARGS__)
#define WEIR_MAP_4(f, a, ...) f(a) WEIR_MAP_3(f, __VA_ARGS__)
#define WEIR_MAP_5(f, a, ...) f(a) WEIR_MAP_4(f, __VA_ARGS__)
#define WEIR_MAP_6(f, a, ...) f(a) WEIR_MAP_5(f, __VA_ARGS__)
#define WEIR_MAP_7(f, a, ...) f(a) WEIR_MAP_6(f, __VA_ARGS__)
#define WEIR_MAP_8(f, a, ...) f(a) WEIR_MAP_7(f, __VA_ARGS__)
#define WEIR_MAP_9(f, a, ...) f(a) WEIR_MAP_8(f, __VA_ARGS__)
#define WEIR_MAP_10(f, a, ...) f(a) WEIR_MAP_9(f, __VA_ARGS__)
#define WEIR_MAP_11(f, a, ...) f(a) WEIR_MAP_10(f, __VA_ARGS__)
#define WEIR_MAP_12(f, a, ...) f(a) WEIR_MAP_11(f, __VA_ARGS__)
#define WEIR_MAP_13(f, a, ...) f(a) WEIR_MAP_12(f, __VA_ARGS__)
#define WEIR_MAP_14(f, a, ...) f(a) WEIR_MAP_13(f, __VA_ARGS__)
#define WEIR_MAP_15(f, a, ...) f(a) WEIR_MAP_14(f, __VA_ARGS__)
#define WEIR_MAP_16(f, a, ...) f(a) WEIR_MAP_15(f, __VA_ARGS__)
#define WEIR_MAP_17(f, a, ...) f(a) WEIR_MAP_16(f, __VA_ARGS__)
#define WEIR_MAP_18(f, a, ...) f(a) WEIR_MAP_17(f, __VA_ARGS__)
#define WEIR_MAP_19(f, a, ...) f(a) WEIR_MAP_18(f, __VA_ARGS__)
#define WEIR_MAP_20(f, a, ...) f(a) WEIR_MAP_19(f, __VA_ARGS__)
#define WEIR_MAP_21(f, a, ...) f(a) WEIR_MAP_20(f, __VA_ARGS__)
#define WEIR_MAP_22(f, a, ...) f(a) WEIR_MAP_21(f, __VA_ARGS__)
#define WEIR_MAP_23(f, a, ...) f(a) WEIR_MAP_22(f, __VA_ARGS__)
#define WEIR_MAP_24(f, a, ...) f(a) WEIR_MAP_23(f, __VA_ARGS__)
#define WEIR_MAP_25(f, a, ...) f(a) WEIR_MAP_24(f, __VA_ARGS__)
#define WEIR_MAP_26(f, a, ...) f(a) WEIR_MAP_25(f, __VA_ARGS__)
#define WEIR_MAP_27(f, a, ...) f(a) WEIR_MAP_26(f, __VA_ARGS__)
#define WEIR_MAP_28(f, a, ...) f(a) WEIR_MAP_27(f, __VA_ARGS__)
#define WEIR_MAP_29(f, a, ...) f(a) WEIR_MAP_28(f, __VA_ARGS__)
#define WEIR_MAP_30(f, a, ...) f(a) WEIR_MAP_29(f, __VA_ARGS__)
#define WEIR_MAP_31(f, a, ...) f(a) WEIR_MAP_30(f, __VA_ARGS__)
#define WEIR_MAP_32(f, a, ...) f(a) WEIR_MAP_31(f, __VA_ARGS__)
#define WEIR_MAP_33(f, a, ...) f(a) WEIR_MAP_32(f, __VA_ARGS__)
#define WEIR_MAP_34(f, a, ...) f(a) WEIR_MAP_33(f, __VA_ARGS__)
#define WEIR_MAP_35(f, a, ...) f(a) WEIR_MAP_34(f, __VA_ARGS__)
#define WEIR_MAP_36(f, a, ...) f(a) WEIR_MAP_35(f, __VA_ARGS__)
#define WEIR_MAP_37(f, a, ...) f(a) WEIR_MAP_36(f, __VA_ARGS__)
#define WEIR_MAP_38(f, a, ...) f(a) WEIR_MAP_37(f, __VA_ARGS__)
#define WEIR_MAP_39(f, a, ...) f(a) WEIR_MAP_38(f, __VA_ARGS__)
#define WEIR_MAP_40(f, a, ...) f(a) WEIR_MAP_39(f, __VA_ARGS__)
#define WEIR_MAP_41(f, a, ...) f(a) WEIR_MAP_40(f, __VA_ARGS__)
#define WEIR_MAP_42(f, a, ...) f(a) WEIR_MAP_41(f, __VA_ARGS__)
#define WEIR_MAP_43(f, a, ...) f(a) WEIR_MAP_42(f, __VA_ARGS__)
#define WEIR_MAP_44(f, a, ...) f(a) WEIR_MAP_43(f, __VA_ARGS__)
#define WEIR_MAP_45(f, a, ...) f(a) WEIR_MAP_44(f, __VA_ARGS__)
#define WEIR_MAP_46(f, a, ...) f(a) WEIR_MAP_45(f, __VA_ARGS__)
#define WEIR_MAP_47(f, a, ...) f(a) WEIR_MAP_46(f, __VA_ARGS__)
#define WEIR_MAP_48(f, a, ...) f(a) WEIR_MAP_47(f, __VA_ARGS__)
#define WEIR_MAP_49(f, a, ...) f(a) WEIR_MAP_48(f, __VA_ARGS__)
#define WEIR_MAP_50(f, a, ...) f(a) WEIR_MAP_49(f, __VA_ARGS__)
#define WEIR_MAP_51(f, a, ...) f(a) WEIR_MAP_50(f, __VA_ARGS__)
#define WEIR_MAP_52(f, a, ...) f(a) WEIR_MAP_51(f, __VA_ARGS__)
#define WEIR_MAP_53(f, a, ...) f(a) WEIR_MAP_52(f, __VA_ARGS__)
#define WEIR_MAP_54(f, a, ...) f(a) WEIR_MAP_53(f, __VA_ARGS__)
#define WEIR_MAP_55(f, a, ...) f(a) WEIR_MAP_54(f, __VA_ARGS__)
#define WEIR_MAP_56(f, a, ...) f(a) WEIR_MAP_55(f, __VA_ARGS__)
#define WEIR_MAP_57(f, a, ...) f(a) WEIR_MAP_56(f, __VA_ARGS__)
#define WEIR_MAP_58(f, a, ...) f(a) WEIR_MAP_57(f, __VA_ARGS__)
#define WEIR_MAP_59(f, a, ...) f(a) WEIR_MAP_58(f, __VA_ARGS__)
#define WEIR_MAP_60(f, a, ...) f(a) WEIR_MAP_59(f, __VA_ARGS__)
#define WEIR_MAP_61(f, a, ...) f(a) WEIR_MAP_60(f, __VA_ARGS__)
#define WEIR_MAP_62(f, a, ...) f(a) WEIR_MAP_61(f, __VA_ARGS__)
#define WEIR_MAP_63(f, a, ...) f(a) WEIR_MAP_62(f, __VA_ARGS__)
#define WEIR_MAP_64(f, a, ...) f(a) WEIR_MAP_63(f, __VA_ARGS__)

#define WEIR_MAP_NTH( \
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, \
    a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, \
    a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, \
    a57, a58, a59, a60, a61, a62, a63, a64, name, ...) name
#define WEIR_MAP_PICK(...) WEIR_MAP_NTH( \
    __VA_ARGS__, WEIR_MAP_64, WEIR_MAP_63, WEIR_MAP_62, WEIR_MAP_61, WEIR_MAP_60, WEIR_MAP_59, \
    WEIR_MAP_58, WEIR_MAP_57, WEIR_MAP_56, WEIR_MAP_55, WEIR_MAP_54, WEIR_MAP_53, WEIR_MAP_52, \
    WEIR_MAP_51, WEIR_MAP_50, WEIR_MAP_49, WEIR_MAP_48, WEIR_MAP_47, WEIR_MAP_46, WEIR_MAP_45, \
    WEIR_MAP_44, WEIR_MAP_43, WEIR_MAP_42, WEIR_MAP_41, WEIR_MAP_40, WEIR_MAP_39, WEIR_MAP_38, \
    WEIR_MAP_37, WEIR_MAP_36, WEIR_MAP_35, WEIR_MAP_34, WEIR_MAP_33, WEIR_MAP_32, WEIR_MAP_31, \
    WEIR_MAP_30, WEIR_MAP_29, WEIR_MAP_28, WEIR_MAP_27, WEIR_MAP_26, WEIR_MAP_25, WEIR_MAP_24, \
    WEIR_MAP_23, WEIR_MAP_22, WEIR_MAP_21, WEIR_MAP_20, WEIR_MAP_19, WEIR_MAP_18, WEIR_MAP_17, \
    WEIR_MAP_16, WEIR_MAP_15, WEIR_MAP_14, WEIR_MAP_13, WEIR_MAP_12, WEIR_MAP_11, WEIR_MAP_10, \
    WEIR_MAP_9, WEIR_MAP_8, WEIR_MAP_7, WEIR_MAP_6, WEIR_MAP_5, WEIR_MAP_4, WEIR_MAP_3, \
    WEIR_MAP_2, WEIR_MAP_1, 0)
#define WEIR_MAP(f, ...) WEIR_MAP_PICK(__VA_ARGS__)(f, __VA_ARGS__)

#endif
