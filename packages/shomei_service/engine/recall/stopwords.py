"""Words that carry grammar rather than matter, by language. RECALL.md §3.

The lists do two jobs: they drop words nobody searches for, and they tell languages of one script apart.
Question words are among them: "when did we sign" looks for signing, not for "when".
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from .scripts import fold

# Keys are the stemmer's names, so that a language found here can be stemmed without another table.
_WORDS: Final[Mapping[str, str]] = {
    "english": """
        a an the this that these those there here it its itself i me my mine myself we us our ours
        ourselves you your yours yourself he him his himself she her hers herself they them their theirs
        themselves who whom whose which what when where why how and or but nor so if then than because
        while as until of at by for with about against between into through during before after above
        below to from up down in out on off over under again once am is are was were be been being have
        has had having do does did doing done will would shall should can could may might must not no yes
        any some such only own same too very just also each few more most other both all s t d ll m re ve
        don doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn ain let get got""",
    "german": """
        der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner und oder
        aber sondern denn doch als wenn ob dass daß weil wie wo wer wen wem wessen was wann warum wieso
        weshalb welche welcher welches welchen welchem wieviel ich du er sie es wir ihr mich dich ihn uns
        euch mir dir ihm ihnen mein meine meinen meinem meiner dein deine sein seine seinen seinem seiner
        seines ihre ihren ihrem ihrer ihres unser unsere unserer euer eure dieser diese dieses diesen
        diesem jener jene jenes jeder jede jedes alle allem allen aller alles man sich selbst bin bist ist
        sind seid war waren warst wart gewesen wird werden wurde wurden worden geworden habe hast hat
        haben hatte hatten gehabt kann können könnte konnte muss müssen soll sollen sollte will wollen
        wollte darf dürfen mag möchte nicht nichts auch nur noch schon sehr so dann da dort hier zu zum
        zur im in ins am an ans auf aus bei beim bis durch für gegen mit nach ohne um unter über vom von
        vor während wegen zwischen hinter neben seit ab etwa""",
    "french": """
        le la les un une des du de d l et ou où mais donc or ni car que qu qui quoi dont quand comment
        pourquoi quel quelle quels quelles combien je j tu il elle on nous vous ils elles me m te t se s
        moi toi lui leur leurs eux mon ma mes ton ta tes son sa ses notre nos votre vos ce c cet cette ces
        cela ça celui celle ceux celles y en à a au aux avec chez contre dans par pour sans sous sur vers
        entre depuis pendant avant après être est es suis sommes êtes sont était étaient été étant sera
        seront serait ai as avons avez ont avait avaient eu fait font faire ne n pas plus non oui très
        aussi si même tout toute tous toutes comme alors""",
    "spanish": """
        el la los las lo un una unos unas de del al y e o u pero sino ni que qué quien quién quienes
        quiénes cual cuál cuales cuáles cuando cuándo como cómo donde dónde cuanto cuánto cuántos cuántas
        porque por para con sin sobre entre hasta desde hacia durante contra en a ante bajo según yo tú él
        ella usted nosotros ustedes ellos ellas me te se nos os le les mi mis tu tus su sus nuestro
        nuestra nuestros este esta estos estas ese esa esos esas aquel aquella esto eso ser es soy eres
        somos son era eran fue fueron sido siendo estar está están estaba estaban he ha has hemos han
        había habían hay no sí muy más menos también ya si""",
    "italian": """
        il lo la i gli le un uno una di del dello della dei degli delle a al allo alla ai agli alle da dal
        dalla dai in nel nello nella nei nelle con su sul sulla per tra fra e ed o ma se che chi cui quale
        quali quando come dove perché quanto quanti quante cosa io tu lui lei noi voi loro mi ti si ci vi
        ne mio mia miei tuo tua suo sua suoi nostro vostro questo questa questi queste quello quella
        quelli essere è sono sei siamo siete era erano fu stato stata stati ho hai ha abbiamo avete hanno
        aveva avevano avere non più anche già molto""",
    "portuguese": """
        o a os as um uma uns umas de do da dos das em no na nos nas ao aos à às por pelo pela pelos pelas
        para com sem sobre entre até desde e ou mas nem que quem qual quais quando como onde porque quanto
        quantos quantas eu tu ele ela você nós vocês eles elas me te se lhe meu minha meus teu tua seu sua
        seus suas nosso nossa este esta estes estas esse essa isso isto aquele aquela ser é sou és somos
        são era eram foi foram sido está estão estava estavam tem têm tinha há havia não sim muito mais
        também já""",
    "dutch": """
        de het een en of maar want dat die dit deze wie wat waar wanneer waarom hoe welk welke ik jij je u
        hij zij ze wij we jullie hun hen mij me jou hem haar ons onze mijn jouw zijn in op aan bij met van
        voor naar uit over onder tegen tussen door om te tot zonder na sinds is ben bent was waren geweest
        wordt worden werd werden heb hebt heeft hebben had hadden kan kunnen zal zullen zou zouden moet
        moeten niet geen wel ook nog al als dan er hier daar zo zeer""",
    "swedish": """
        och eller men att det den de en ett som i på av för med till från om vid under över mellan genom
        utan mot efter innan jag du han hon vi ni dem mig dig honom henne oss er min mitt mina din sin
        sitt sina vår deras dess denna detta dessa vem vad var när varför hur vilken vilket vilka är vara
        varit blev blir har hade ha kan kunde ska skulle måste inte ej också bara så då där här än mycket""",
    "danish": """
        og eller men at det den de en et som i på af for med til fra om ved under over mellem gennem uden
        mod efter før jeg du han hun vi dem mig dig ham hende os jer min mit mine din sin sit sine vores
        deres denne dette disse hvem hvad hvor hvornår hvorfor hvordan hvilken hvilket hvilke er være var
        været blev bliver har havde kan kunne skal skulle må ikke også kun så da der her end meget""",
    "norwegian": """
        og eller men at det den de en ei et som i på av for med til fra om ved under over mellom gjennom
        uten mot etter før jeg du han hun vi dere dem meg deg ham henne oss min mitt mine din sin sitt
        sine vår deres denne dette disse hvem hva hvor når hvorfor hvordan hvilken hvilket hvilke er være
        var vært ble blir har hadde kan kunne skal skulle må ikke også bare så da der her enn mye""",
    "finnish": """
        ja tai mutta että jos kun koska kuin se ne tämä nämä tuo nuo joka jotka mikä mitä missä milloin
        miksi miten kuka ketkä kenen minä sinä hän me te he minun sinun hänen meidän teidän heidän on ovat
        oli olivat ollut olla ole ei eivät en et emme myös vain niin jo vielä hyvin sekä""",
    "polish": """
        i oraz lub albo ale że w we na z ze do od po za przez dla o u przy pod nad między bez to ten ta te
        tego tej tych tym kto co gdzie kiedy dlaczego jak jaki jaka jakie który która które ile ja ty on
        ona ono my wy oni mnie mi cię go jej ich nas was mój moja twój jego nasz się jest są był była było
        byli być ma mają nie tak też już tylko bardzo""",
    "turkish": """
        ve veya ya ile ama fakat için gibi kadar daha çok en bir bu şu o ben sen biz siz onlar benim senin
        onun bizim kim ne nerede zaman neden niçin nasıl hangi kaç mi mı mu mü da de ki değil var yok olan
        olarak oldu olduğu her""",
    "indonesian": """
        yang dan atau tetapi di ke dari pada untuk dengan oleh dalam adalah ini itu saya aku kamu anda dia
        kami kita mereka siapa apa mana kapan mengapa bagaimana berapa tidak bukan sudah telah akan juga
        hanya sangat lebih ada""",
    "russian": """
        и или но а что чтобы как если когда где куда почему зачем кто который которая которое которые
        какой какая какие сколько чей в во на с со к ко у о об от до из за по под над при про для без
        через между я ты он она оно мы вы они меня мне тебя тебе его ему её ей нас нам вас вам их им мой
        моя твой свой наш ваш этот эта это эти тот та то те быть был была было были есть будет не ни да
        нет же ли бы уже ещё только также очень так""",
    "greek": """
        ο η το οι τα του της των τον την τους τις ένας μια ένα και ή αλλά αν ότι που πως πού πότε γιατί
        ποιος ποια ποιο πόσο τι σε στο στη στην στον στα με για από προς κατά μετά πριν εγώ εσύ αυτός αυτή
        αυτό εμείς εσείς μου σου μας σας είναι ήταν έχει είχε να θα δεν μη ναι όχι και πολύ""",
    "arabic": """
        في من إلى على عن مع بعد قبل بين حتى عند أن إن ما ماذا متى أين كيف لماذا هل كم أي الذي التي الذين
        هو هي هم أنا أنت نحن هذا هذه ذلك تلك كان كانت يكون قد لا لم لن ليس و أو ثم لكن كل بعض""",
    "hindi": """
        का के की को से में पर और या है हैं था थे थी हो यह वह ये वे मैं हम आप तुम क्या कौन कब कहाँ क्यों
        कैसे कितने जो कि ने भी नहीं ही तक लिए""",
}  # fmt: skip


@cache
def languages_of() -> Mapping[str, tuple[str, ...]]:
    """Return, for every stop word, the languages it belongs to."""
    found: dict[str, tuple[str, ...]] = {}
    for language, words in _WORDS.items():
        for word in dict.fromkeys(fold(words).split()):
            found[word] = (*found.get(word, ()), language)
    return found


def language_of(words: Iterable[str]) -> str:
    """Return the language whose stop words occur most; English when none speaks louder."""
    votes: dict[str, float] = {"english": 0.0}
    languages = languages_of()
    for word in words:
        for language in (found := languages.get(word, ())):
            votes[language] = votes.get(language, 0.0) + 1 / len(found)
    return max(votes, key=lambda language: votes[language])
